package config

import (
	"fmt"
	"strings"
)

// Check loads a file and resolves its upstreams with env, which is [os.LookupEnv] outside tests,
// without starting them. It returns the configuration, or nil if the file is invalid, and the
// text to print: a line for each problem, or for a valid file its warnings and a summary.
func Check(path string, env func(string) (string, bool), validators ...Validator) (*Config, string) {
	c, err := Load(path, validators...)
	if err != nil {
		return nil, err.Error() + "\n"
	}
	warnings, verdict := c.Warnings, "ok"
	var disabled []Problem
	unusable := 0
	for _, u := range c.Upstreams {
		if !u.Enabled {
			continue
		}
		resolved, err := u.Resolve(env)
		warnings = append(warnings, c.unresolved(resolved.Warning)...)
		if err != nil {
			disabled = append(disabled, c.unresolved(err)...)
			unusable++
		}
	}
	switch {
	case unusable > 0:
		verdict = fmt.Sprintf("can be used, but %d of %d upstreams cannot run here", unusable, len(c.Upstreams))
	case len(warnings) > 0:
		verdict = "can be used, with warnings"
	}
	var b strings.Builder
	for _, p := range warnings {
		p.Message = "warning: " + p.Message
		fmt.Fprintln(&b, p)
	}
	for _, p := range disabled {
		p.Message = "this upstream is disabled: " + p.Message
		fmt.Fprintln(&b, p)
	}
	fmt.Fprintf(&b, "%s: %s (upstreams: %d, limits: %d, plans: %d, tools: %d)\n", c.Path, verdict, len(c.Upstreams), len(c.Limits), len(c.Plans), len(c.Tools))
	return c, b.String()
}

// unresolved returns the [Unresolved] errors joined in err, with their positions.
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
