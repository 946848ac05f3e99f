// Package secret finds possible secrets and masks them in data that leaves the process:
// recorded arguments, exported traces, comments in a proposed layer.
//
// A secret is recognised by its shape (ghp_…, a private key, a password in a URL) or by its
// name (password, api_key, Authorization). It is replaced as a whole by a mark with the rule
// that found it:
//
//	secret.Text("curl -H 'X-Api-Key: 5f4dcc3b5aa7' https://bob:hunter2@host/")
//	// curl -H 'X-Api-Key: [secret: key]' https://bob:[secret: url-password]@host/
//	secret.JSON([]byte(`{"user":"bob","password":"hunter2","pin":[1234]}`))
//	// {"user":"bob","password":"[secret: password]","pin":["[secret: pin]"]}
//
// Marks are not changed, so masking is idempotent. All functions take time linear in the
// length of the text.
//
// The rules are our own tables of the prefixes of tokens, as their makers document them, and
// of the names of secrets. The maintained rules of gitleaks (v8.30.0, MIT) were compared: its
// detector makes a program that only imports it 10 MB larger, 8 MiB more resident and 3.6 ms
// slower to start; its configuration alone 4 MB, 3.9 MiB and 1.2 ms. Once loaded it takes
// 24 MiB more, and 85 ms for 64 KiB of JSON, where this package takes about 2, and at most
// about 50 for adversarial texts. It also is made to report secrets in a repository and
// ignores doubtful ones; this package masks them.
//
// A name is classified by its last words. A token, a pass or a key of an unknown thing is
// masked at any length, because a leaked secret cannot be recalled. Page tokens, counts and
// the keys of issues, files and tables are not masked, because later calls use them. In a
// program or a sentence these words have many other meanings, so there the value must look
// like a secret too.
//
// The package does not find secrets with neither a shape nor a name: a password in a
// sentence, or 32 letters that are secret only because the name of a service is near (95
// rules of gitleaks). In arguments of that service's tools the name is almost always near.
package secret

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const (
	markBegin = "[secret: "
	markEnd   = "]"
)

func mark(rule string) string { return markBegin + rule + markEnd }

// marked matches the mark of a replaced secret.
var marked = regexp.MustCompile(`\[secret: [a-z-]+\]`)

// span is the position of a secret in a text. Without a rule, it is an existing mark.
type span struct {
	from, to int
	rule     string
	name     string // name that marks the value as secret; "" if its shape does
}

// find returns the secrets and marks in a text, ordered and disjoint. aws means that the id of
// an AWS key is near the text; strict means that any value of a secret's name is a secret.
func find(s string, aws, strict bool) []span {
	var found []span
	if strings.Contains(s, markBegin) {
		for _, at := range marked.FindAllStringIndex(s, -1) {
			found = append(found, span{from: at[0], to: at[1]})
		}
	}
	shaped := findShapes(s)
	aws = aws || hasAWSID(s, shaped)
	if found = slices.Concat(found, findPatterns(s, aws), shaped); len(found) > 0 {
		found = merge(found)
		s = filled(s, found)
	}
	a := assigner{s: s, strict: strict}
	return merge(append(a.find(), found...))
}

// hasAWSID reports whether a text contains the id of an AWS key, or its mark.
func hasAWSID(s string, found []span) bool {
	return slices.ContainsFunc(found, func(p span) bool { return p.rule == awsID }) || strings.Contains(s, markBegin+awsID+markEnd)
}

// filled returns a text with spans replaced by fillers.
func filled(s string, spans []span) string {
	out := []byte(s)
	for _, p := range spans {
		for i := p.from; i < p.to; i++ {
			out[i] = filler[0]
		}
	}
	return string(out)
}

// merge sorts spans and joins those that overlap.
func merge(all []span) []span {
	slices.SortStableFunc(all, func(a, b span) int { return a.from - b.from })
	var out []span
	for _, p := range all {
		if n := len(out); n > 0 && p.from < out[n-1].to {
			last := &out[n-1]
			last.to, last.rule, last.name = max(last.to, p.to), cmp.Or(last.rule, p.rule), cmp.Or(last.name, p.name)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// replace returns a text with its secrets replaced by marks.
func replace(s string, spans []span) string {
	var out strings.Builder
	done := 0
	for _, p := range spans {
		if p.rule != "" {
			out.WriteString(s[done:p.from])
			out.WriteString(mark(p.rule))
			done = p.to
		}
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// Text returns s with each secret replaced by "[secret: RULE]", or s itself if it has none.
func Text(s string) string { return text(s, false) }

const maxRounds = 4 // scans of a text; two are enough except for texts made to need more

// text scrubs a text until a scan finds no more secrets.
func text(s string, aws bool) string {
	for range maxRounds {
		out := replace(s, find(s, aws, false))
		if out == s {
			return s
		}
		s = out
	}
	return mark("text") // not clean after maxRounds, so all of it is replaced
}

// In returns the parts of a text that look like secrets.
func In(s string) []string {
	var all []string
	for _, p := range find(s, false, false) {
		if p.rule != "" {
			all = append(all, s[p.from:p.to])
		}
	}
	return all
}

// Named reports whether value is a secret under the given name.
func Named(name, value string) bool { return classify(name).value(value) }
