package clients

import (
	"slices"
	"strings"

	"mcpschedd/internal/secret"
)

// filledIn stands in a string for what a variable will put there.
const filledIn = "\x01"

// hide puts what may be a secret in an argument, a URL, a command or a path into
// variables. In doubt a harmless value goes into the file of variables too, where it works
// as well; the other mistake would put a secret where it is shown. before is the argument
// before it.
func (e *entry) hide(t text, before string) text {
	for i, p := range t { // a default that looks like a secret is the value from now on
		if p.variable != "" && p.literal != "" && len(secret.Find(p.literal, before))+len(secret.Find(p.literal, "--"+p.variable)) > 0 {
			t[i] = e.defaulted(p)
		}
	}
	return e.withhold(t, secret.Find(t.filled(filledIn), before))
}

// value puts every literal part of an environment variable or a header into variables, but
// for the word that says what kind of credentials follow.
func (e *entry) value(t text, label string) text {
	s := t.filled(filledIn)
	for i, p := range t {
		if p.variable != "" && p.literal != "" && p.variable != workspace && !scheme(p.literal) {
			t[i] = e.defaulted(p)
		}
	}
	return e.withhold(t, []secret.Span{{To: len(s), Name: label}})
}

// defaulted is a variable whose default has become its value.
func (e *entry) defaulted(p piece) piece {
	for _, v := range e.server.Values {
		if v.Name == p.variable && v.Value != p.literal {
			return p
		}
	}
	e.add(p.variable, p.literal)
	e.note("${" + p.variable + "} has its default in the file of variables, which stands before the environment: change it there")
	return piece{variable: p.variable}
}

// withhold replaces the literal parts of a text that lie in spans.
func (e *entry) withhold(t text, all []secret.Span) text {
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
			if scheme(hidden) || len(t) > 1 && strings.Trim(hidden, " :,;/&?=\"'@") == "" {
				continue
			}
			if from > done {
				out = append(out, piece{literal: p.literal[done:from]})
			}
			out = append(out, piece{variable: e.hidden(variableName(s.Name), hidden)})
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
func (e *entry) hidden(label, value string) string {
	if label == "" {
		label = e.label + "_SECRET"
	}
	for n := 1; ; n++ {
		name := label
		if n > 1 {
			name = label + "_" + itoa(n)
		}
		i := slices.IndexFunc(e.server.Values, func(v Value) bool { return v.Name == name })
		switch {
		case i >= 0 && e.server.Values[i].Value == value:
			return name
		case i < 0 && !e.means(name):
			e.add(name, value)
			return name
		}
	}
}

func (e *entry) add(name, value string) {
	v := Value{name, value}
	if !slices.Contains(e.server.Values, v) {
		e.server.Values = append(e.server.Values, v)
	}
}

// scheme reports whether a text says only which kind of credentials follows.
func scheme(s string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "apikey", "api-key", "key", "digest", "negotiate"}, strings.ToLower(strings.TrimSpace(s)))
}
