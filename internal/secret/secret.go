// Package secret finds possible secrets and masks them in data that leaves the process:
// recorded arguments, exported traces, comments in a proposed layer.
//
// A secret is recognised by its shape (ghp_…, a private key, a password in a URL) or by
// its name (password, api_key, Authorization). It is replaced as a whole by a mark with
// the rule that found it:
//
//	secret.Text("curl -H 'X-Api-Key: 5f4dcc3b5aa7' https://bob:hunter2@host/")
//	// curl -H 'X-Api-Key: [secret: key]' https://bob:[secret: url-password]@host/
//	secret.JSON([]byte(`{"user":"bob","password":"hunter2","pin":[1234]}`))
//	// {"user":"bob","password":"[secret: password]","pin":["[secret: pin]"]}
//
// The rules are in rules.txt: expressions for the tokens of about 100 makers, each tried
// only in a text that has its prefix, and for the names of secrets. They are our own.
// The rules of gitleaks (v8.30.0, MIT) were compared: its detector makes a program 10 MB
// larger and takes 85 ms for 64 KiB of JSON, and it ignores doubtful secrets, which this
// package masks: a leaked secret cannot be recalled.
//
// Page tokens, counts and the keys of issues, files and tables are not masked, because
// later calls use them. In a program or a sentence the names have other meanings, so
// there the value must look like a secret too. The package does not find secrets with
// neither a shape nor a name, such as a password in a sentence.
package secret

import (
	"cmp"
	"slices"
	"strings"
)

func mark(rule string) string { return "[secret: " + rule + "]" }

// Span is the position of a secret in a text, in bytes.
type Span struct {
	From, To int
	Name     string // name that marks the value as secret; "" if its shape does
	rule     string
}

// find returns the secrets in a text, ordered and disjoint. strict means that any value
// of a secret's name is a secret. Marks are not secrets.
func find(s string, strict bool) []Span {
	return merge(append(shaped(s, strict), assigned(s, strict)...))
}

// shaped returns the secrets in a text that have the shape of one.
func shaped(s string, strict bool) (found []Span) {
	for _, f := range rules().finders {
		has := func(sign string) bool { return strings.Contains(s, sign) }
		if f.strict && !strict || !slices.ContainsFunc(f.signs, has) {
			continue
		}
		for _, at := range f.re().FindAllStringSubmatchIndex(s, -1) {
			at = at[2:]
			for at[0] < 0 { // one group is that of the secret
				at = at[2:]
			}
			if value := s[at[0]:at[1]]; f.check(value) && !placeholder().MatchString(value) {
				found = append(found, Span{at[0], at[1], "", f.rule})
			}
		}
	}
	return found
}

// merge sorts spans and joins those that overlap.
func merge(all []Span) []Span {
	slices.SortStableFunc(all, func(a, b Span) int { return a.From - b.From })
	var out []Span
	for _, p := range all {
		if n := len(out); n > 0 && p.From < out[n-1].To {
			out[n-1].To, out[n-1].Name = max(out[n-1].To, p.To), cmp.Or(out[n-1].Name, p.Name)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// replace returns a text with its secrets replaced by marks.
func replace(s string, spans []Span) string {
	var pieces []string
	done := 0
	for _, p := range spans {
		pieces = append(pieces, s[done:p.From], mark(p.rule))
		done = p.To
	}
	return strings.Join(append(pieces, s[done:]), "")
}

// Text returns s with each secret replaced by "[secret: RULE]", or s itself if it has
// none.
func Text(s string) string { return replace(s, find(s, false)) }

// In returns the parts of a text that look like secrets.
func In(s string) []string { return parts(s, find(s, false)) }

func parts(s string, spans []Span) (all []string) {
	for _, p := range spans {
		all = append(all, s[p.From:p.To])
	}
	return all
}

// Named reports whether value is a secret under the given name.
func Named(name, value string) bool { return classify(name).isSecret(value) }
