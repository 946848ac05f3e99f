package clients

import (
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/secret"
)

// vault collects the variables of one server: values that its block may not show.
type vault struct {
	Variables
	label string          // what variables without a name of their own are called after
	used  map[string]bool // variables that mean something outside of the server's own
	notes []string        // on what is not what it was
}

func (v *vault) note(text string) {
	if !slices.Contains(v.notes, text) {
		v.notes = append(v.notes, text)
	}
}

// ask is a variable whose value no file has.
func (v *vault) ask(name, why string) piece {
	if name == "" {
		name = v.label + "_SECRET"
	}
	if !slices.ContainsFunc(v.Unset, func(u Unset) bool { return u.Name == name }) {
		v.Unset = append(v.Unset, Unset{Name: name, Why: why})
	}
	return piece{variable: name}
}

// filledIn stands in a string for what a variable will put there, as secret has it.
const filledIn = "\x01"

// hide puts what may be a secret in an argument, a URL, a command or a path into
// variables. before is the argument before it.
func (v *vault) hide(t text, before string) text {
	for i, p := range t { // a default that looks like a secret is the value from now on
		if p.variable != "" && p.literal != "" && len(secret.Find(p.literal, before))+len(secret.Find(p.literal, "--"+p.variable)) > 0 {
			t[i] = v.defaulted(p)
		}
	}
	return v.withhold(t, secret.Find(t.filled(filledIn), before))
}

// value puts every literal part of an environment variable or a header into variables, but
// for the word that says what kind of credentials follow.
func (v *vault) value(t text, label string) text {
	all := []secret.Span{{To: len(t.filled(filledIn)), Name: label}}
	for i, p := range t {
		if p.variable != "" && p.literal != "" && p.variable != workspace && !isScheme(p.literal) {
			t[i] = v.defaulted(p)
		}
	}
	return v.withhold(t, all)
}

// defaulted is a variable whose default has become its value.
func (v *vault) defaulted(p piece) piece {
	if i := v.index(p.variable); i >= 0 && v.Values[i].Value != p.literal {
		return p
	}
	v.add(p.variable, p.literal)
	v.note("${" + p.variable + "} has its default in the file of variables, which stands before the environment: change it there")
	return piece{variable: p.variable}
}

// withhold replaces the literal parts of a text that lie in spans.
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

// hidden is the variable that stands for a value: of equal ones of a server the same.
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

// isScheme reports whether a text says only which kind of credentials follows.
func isScheme(s string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "apikey", "api-key", "key", "digest", "negotiate"}, strings.ToLower(strings.TrimSpace(s)))
}
