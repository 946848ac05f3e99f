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
	r := &Report{}
	c, err := Load(path, further...)
	if broken, ok := errors.AsType[*Error](err); ok {
		r.Problems = broken.Problems
		return r
	}
	if err != nil {
		r.Err = err
		return r
	}
	r.Config, r.Warnings = c, c.Warnings
	for _, u := range c.Upstreams {
		if !u.Enabled {
			continue
		}
		resolved, err := u.Resolve(env)
		if e, ok := errors.AsType[*Unresolved](resolved.Note); ok {
			r.Warnings = append(r.Warnings, Problem{File: path, Line: c.lineOf(e.Key, u), Key: e.Key, Message: e.Reason})
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		for _, err := range joined.Unwrap() {
			if e, ok := errors.AsType[*Unresolved](err); ok {
				r.Disabled = append(r.Disabled, Problem{File: path, Line: c.lineOf(e.Key, u), Key: e.Key, Message: e.Reason})
			}
		}
	}
	return r
}

func (c *Config) lineOf(key string, u Upstream) int {
	if line, ok := c.Positions[key]; ok {
		return line
	}
	return u.Line
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
	if r.Err != nil {
		fmt.Fprintln(&b, r.Err)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(&b, p)
	}
	for _, p := range r.Warnings {
		p.Message = "warning: " + p.Message
		fmt.Fprintln(&b, p)
	}
	for _, p := range r.Disabled {
		p.Message = "this upstream is disabled: " + p.Message
		fmt.Fprintln(&b, p)
	}
	if c := r.Config; c != nil {
		fmt.Fprintf(&b, "%s: %s (upstreams: %d, limits: %d, plans: %d, tools: %d)\n", c.Path, r.verdict(), len(c.Upstreams), len(c.Limits), len(c.Plans), len(c.Tools))
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
