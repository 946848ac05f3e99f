package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Report is what can be said of a file without starting anything.
type Report struct {
	Config   *Config   // nil if the file cannot be used
	Problems []Problem // what makes it unusable
	Warnings []Problem // what is read otherwise than written
	Disabled []Problem // upstreams that cannot run here, for want of a variable or a file
	Err      error     // the file itself could not be read
}

// Check loads a file and resolves its upstreams with env, which is
// [os.LookupEnv] outside tests.
func Check(path string, env func(string) (string, bool), further ...Further) *Report {
	c, err := Load(path, further...)
	if broken, ok := errors.AsType[*Error](err); ok {
		return &Report{Problems: broken.Problems}
	}
	if err != nil {
		return &Report{Err: err}
	}
	r := &Report{Config: c, Warnings: c.Warnings}
	for _, u := range c.Upstreams {
		if !u.Enabled {
			continue
		}
		resolved, err := u.Resolve(env)
		r.Warnings = append(r.Warnings, c.unresolved(resolved.Note)...)
		r.Disabled = append(r.Disabled, c.unresolved(err)...)
	}
	return r
}

// unresolved are the joined [Unresolved] of an error, with their places.
func (c *Config) unresolved(err error) (all []Problem) {
	if e, ok := err.(*Unresolved); ok {
		return []Problem{c.Problem(e.Key, "%s", e.Reason)}
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, c.unresolved(err)...)
		}
	}
	return all
}

// OK says whether the file can be used, warnings or not.
func (r *Report) OK() bool { return r.Config != nil }

// verdict is "ok", or what is not.
func (r *Report) verdict() string {
	off := make(map[string]bool)
	for _, p := range r.Disabled {
		for _, u := range r.Config.Upstreams {
			if within(p.Key, join("upstreams", u.Name)) {
				off[u.Name] = true
			}
		}
	}
	switch {
	case len(off) > 0:
		return fmt.Sprintf("can be used, but %d of %d upstreams cannot run here", len(off), len(r.Config.Upstreams))
	case len(r.Warnings) > 0:
		return "can be used, with warnings"
	}
	return "ok"
}

// WriteTo prints one finding a line, problems first, and a summary if the file
// can be used.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	write := func(what string, all []Problem) {
		for _, p := range all {
			p.Message = what + p.Message
			fmt.Fprintln(&b, p)
		}
	}
	if r.Err != nil {
		fmt.Fprintln(&b, r.Err)
	}
	write("", r.Problems)
	write("warning: ", r.Warnings)
	write("this upstream is disabled: ", r.Disabled)
	if c := r.Config; c != nil {
		fmt.Fprintf(&b, "%s: %s (upstreams: %d, limits: %d, plans: %d, tools: %d)\n", c.Path, r.verdict(), len(c.Upstreams), len(c.Limits), len(c.Plans), len(c.Tools))
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
