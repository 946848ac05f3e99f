package config

import (
	"errors"
	"fmt"
	"strings"
)

// piece is a part of a string: literal text, or a variable to look up.
type piece struct {
	text       string // literal text, or a variable's default
	variable   string // "" for literal text
	hasDefault bool
}

// split reads ${NAME}, ${NAME:-default} and the escape $${, which stands for
// a literal ${. Any other $ is itself.
func split(s string) ([]piece, error) {
	var pieces []piece
	for s != "" {
		i := strings.Index(s, "${")
		if i < 0 {
			return append(pieces, piece{text: s}), nil
		}
		if i > 0 && s[i-1] == '$' {
			pieces = append(pieces, piece{text: s[:i-1] + "${"})
			s = s[i+2:]
			continue
		}
		if i > 0 {
			pieces = append(pieces, piece{text: s[:i]})
		}
		inner, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return nil, errors.New(`"${" without "}"; a literal "${" is written "$${"`)
		}
		name, fallback, hasDefault := strings.Cut(inner, ":-")
		if !validVariable(name) {
			return nil, fmt.Errorf(`want ${NAME} or ${NAME:-default}, have the name %q; a literal "${" is written "$${"`, name)
		}
		pieces = append(pieces, piece{text: fallback, variable: name, hasDefault: hasDefault})
		s = rest
	}
	return pieces, nil
}

func validVariable(name string) bool {
	const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
	return name != "" && strings.ContainsRune(first, rune(name[0])) && strings.Trim(name, first+"0123456789") == ""
}

// expand replaces the variables of s by what lookup says. As in a shell,
// :-default also stands in for a variable that is set to nothing.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	pieces, err := split(s)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, p := range pieces {
		if p.variable == "" {
			b.WriteString(p.text)
			continue
		}
		v, set := lookup(p.variable)
		switch {
		case p.hasDefault && v == "":
			v = p.text
		case !set:
			return "", fmt.Errorf("environment variable %s is not set", p.variable)
		}
		b.WriteString(v)
	}
	return b.String(), nil
}
