package clients

import (
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/secret"
)

// vault collects the variables of one server, for values that its block must not contain.
type vault struct {
	Variables
	label string          // prefix of the names of variables for unnamed values
	used  map[string]bool // names of variables that the server uses otherwise
	notes []string        // differences from the client's entry
}

func (v *vault) note(text string) {
	if !slices.Contains(v.notes, text) {
		v.notes = append(v.notes, text)
	}
}

// ask adds a variable without a known value.
func (v *vault) ask(name, why string) piece {
	if name == "" {
		name = v.label + "_SECRET"
	}
	if !slices.ContainsFunc(v.Unset, func(u Unset) bool { return u.Name == name }) {
		v.Unset = append(v.Unset, Unset{Name: name, Why: why})
	}
	return piece{variable: name}
}

// filledIn represents a variable in a string for package secret.
const filledIn = "\x01"

// hide moves the possible secrets in an argument, a URL, a command or a path to variables.
// before is the preceding argument.
func (v *vault) hide(t text, before string) text {
	for i, p := range t { // a secret default becomes the variable's value
		if p.variable != "" && p.literal != "" && len(secret.Find(p.literal, before))+len(secret.Find(p.literal, "--"+p.variable)) > 0 {
			t[i] = v.defaulted(p)
		}
	}
	return v.withhold(t, secret.Find(t.filled(filledIn), before))
}

// value moves every literal part of an environment variable or a header to variables, except
// the scheme of credentials.
func (v *vault) value(t text, label string) text {
	all := []secret.Span{{To: len(t.filled(filledIn)), Name: label}}
	for i, p := range t {
		if p.variable != "" && p.literal != "" && p.variable != workspace && !isScheme(p.literal) {
			t[i] = v.defaulted(p)
		}
	}
	return v.withhold(t, all)
}

// defaulted returns a variable whose default has become its value.
func (v *vault) defaulted(p piece) piece {
	if i := v.index(p.variable); i >= 0 && v.Values[i].Value != p.literal {
		return p
	}
	v.add(p.variable, p.literal)
	v.note("${" + p.variable + "} has its default in the file of variables, which overrides the environment: change it there")
	return piece{variable: p.variable}
}

// withhold moves the literal parts of a text that are in spans to variables.
func (v *vault) withhold(t text, all []secret.Span) text {
	if len(all) == 0 {
		return t
	}
	var out text
	at := 0
	for _, p := range t {
		if p.variable != "" {
			out = append(out, p)
			at += len(filledIn)
			continue
		}
		done := 0
		for _, s := range all {
			from, to := max(s.From-at, done), min(s.To-at, len(p.literal))
			if from >= to {
				continue
			}
			hidden := p.literal[from:to]
			if isScheme(hidden) || len(t) > 1 && strings.Trim(hidden, " :,;/&?=\"'@") == "" {
				continue
			}
			if from > done {
				out = append(out, piece{literal: p.literal[done:from]})
			}
			out = append(out, piece{variable: v.hidden(variableName(s.Name), hidden)})
			done = to
		}
		if done < len(p.literal) {
			out = append(out, piece{literal: p.literal[done:]})
		}
		at += len(p.literal)
	}
	return out
}

// hidden returns the variable for a value. Equal values with the same label share a variable.
func (v *vault) hidden(label, value string) string {
	if label == "" {
		label = v.label + "_SECRET"
	}
	for n := 1; ; n++ {
		name := label
		if n > 1 {
			name += "_" + strconv.Itoa(n)
		}
		i := v.index(name)
		switch {
		case i >= 0 && v.Values[i].Value == value:
			return name
		case i < 0 && !v.used[name]:
			v.add(name, value)
			return name
		}
	}
}

func (v *vault) index(name string) int {
	return slices.IndexFunc(v.Values, func(v Value) bool { return v.Name == name })
}

func (v *vault) add(name, value string) {
	if one := (Value{name, value}); !slices.Contains(v.Values, one) {
		v.Values = append(v.Values, one)
	}
}

// isScheme reports whether a text is only the name of an authentication scheme.
func isScheme(s string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "apikey", "api-key", "key", "digest", "negotiate"}, strings.ToLower(strings.TrimSpace(s)))
}
