package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// reference matches ${NAME}, ${NAME:-default}, and $${, the escape for a literal ${. Of any other
// ${ it has no name.
var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\})?`)
})

// expand replaces the variable references in s by the values that lookup returns. Any other $ is
// kept. As in a shell, :-default also replaces the value of a variable that is set to "".
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var failed error
	out := reference().ReplaceAllStringFunc(s, func(text string) string {
		m := reference().FindStringSubmatch(text)
		name, fallback := m[1], m[2]
		switch {
		case text == "$${":
			return "${"
		case name == "":
			failed = errors.New(`want ${NAME} or ${NAME:-default}; a literal "${" is written "$${"`)
			return ""
		}
		value, set := lookup(name)
		switch {
		case fallback != "" && value == "":
			return strings.TrimPrefix(fallback, ":-")
		case !set && failed == nil:
			failed = fmt.Errorf("environment variable %s is not set", name)
		}
		return value
	})
	if failed != nil {
		return "", failed
	}
	return out, nil
}

// shellVariable matches $NAME where it is a whole element of a path, which only a shell expands.
var shellVariable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[/\\])\$([A-Za-z_][A-Za-z0-9_]*)(?:[/\\]|$)`)
})

// placeholder is a lookup for checks of a string's syntax: every variable is "1".
func placeholder(string) (string, bool) { return "1", true }
