package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

var (
	// reference matches ${NAME}, ${NAME:-default}, and $${, the escape for a literal ${.
	reference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`) })
	variable  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
)

// expand replaces the variable references in s by the values that lookup returns. Any other $ is
// kept. As in a shell, :-default also replaces the value of a variable that is set to "".
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

// placeholder is a lookup for checks of a string's syntax: every variable is "1".
func placeholder(string) (string, bool) { return "1", true }
