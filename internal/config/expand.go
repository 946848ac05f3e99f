package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

var (
	// reference is ${NAME}, ${NAME:-default}, or the escape $${, which stands for a literal ${.
	reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`) })
	variable  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

// expand replaces the variables of s by what lookup says; any other $ is itself. As in a
// shell, :-default also stands in for a variable that is set to nothing.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var failed error
	out := reference().ReplaceAllStringFunc(s, func(text string) string {
		if text == "$${" || failed != nil {
			return "${"
		}
		inner, closed := strings.CutSuffix(text[len("${"):], "}")
		name, fallback, hasDefault := strings.Cut(inner, ":-")
		if !closed {
			failed = errors.New(`"${" without "}"; a literal "${" is written "$${"`)
			return ""
		}
		if !variable().MatchString(name) {
			failed = fmt.Errorf(`want ${NAME} or ${NAME:-default}, have the name %q; a literal "${" is written "$${"`, name)
			return ""
		}
		value, set := lookup(name)
		switch {
		case hasDefault && value == "":
			return fallback
		case !set:
			failed = fmt.Errorf("environment variable %s is not set", name)
		}
		return value
	})
	if failed != nil {
		return "", failed
	}
	return out, nil
}

// anything stands for every variable where only the form of a text counts.
func anything(string) (string, bool) { return "1", true }
