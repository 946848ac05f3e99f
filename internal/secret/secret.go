// Package secret knows what may be a secret, and takes it out of what leaves the
// machine's memory: recorded arguments, exported traces and trajectories, comments
// in a proposed layer.
//
// The one idea: a secret is known by its own shape (ghp_…, a private key, a
// password in a URL) or by what it is called (password, api_key, Authorization),
// and what is found is replaced whole by a mark that says which of the two it was:
//
//	secret.Text("curl -H 'X-Api-Key: 5f4dcc3b5aa7' https://bob:hunter2@host/")
//	// curl -H 'X-Api-Key: [secret: key]' https://bob:[secret: url-password]@host/
//	secret.JSON([]byte(`{"user":"bob","password":"hunter2","pin":[1234]}`))
//	// {"user":"bob","password":"[secret: password]","pin":["[secret: pin]"]}
//
// What is scrubbed already is left as it is, so that doing it twice is doing it
// once. All of it takes time linear in the length of the text.
//
// The rules are our own table of how tokens begin, as their makers document them,
// and of what secrets are called. Those of gitleaks (v8.30.0, MIT), which are kept,
// were weighed: its detector makes a program that merely imports it 10 MB larger,
// 8 MiB more resident and 3.6 ms slower to start; its configuration alone 4 MB, 3.9
// MiB and 1.2 ms; and once loaded it takes 24 MiB more, and 85 ms for 64 KiB of JSON
// where this takes some 2, and at most some 50 for texts made to be slow. It is also made to report what is in a repository, and
// keeps quiet where it is not sure; here what is in doubt goes.
//
// A name goes by its last words: a token, a pass or a key of no known thing goes at
// any length, for one that stays is out for good; page tokens, counts and the keys of
// issues, files and tables stay, for calls are read off them. In a program or a
// sentence the same words mean so much else that the value has to look like a secret.
//
// It leaves out what has neither a shape nor a name: a password in a sentence, and
// the 32 letters that are a secret only because the name of a service stands near
// them (95 rules of gitleaks), for in the arguments of that service's tools most
// things are.
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

// marked is what stands there for a secret that was taken out.
var marked = regexp.MustCompile(`\[secret: [a-z-]+\]`)

// span is a part of a text that is a secret. Without a rule it is a mark that stands there
// already.
type span struct {
	from, to int
	rule     string
	name     string // that says that it is a secret; "": its shape does
}

// find returns the secrets and marks of a text, in order and apart. aws says that the id of an
// AWS key stands around it; with strict any value of a telling name is a secret.
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
		found = apart(found)
		s = filled(s, found)
	}
	a := assigner{s: s, strict: strict}
	return apart(append(a.find(), found...))
}

// hasAWSID reports whether the id of an AWS key stands in a text, or stood there.
func hasAWSID(s string, found []span) bool {
	return slices.ContainsFunc(found, func(p span) bool { return p.rule == awsID }) || strings.Contains(s, markBegin+awsID+markEnd)
}

// filled is a text with fillers in the place of spans.
func filled(s string, spans []span) string {
	out := []byte(s)
	for _, p := range spans {
		for i := p.from; i < p.to; i++ {
			out[i] = filler[0]
		}
	}
	return string(out)
}

// apart puts spans in order. Of two that overlap one goes from where the first begins to
// where the last ends.
func apart(all []span) []span {
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

// replace returns a text with marks in the place of secrets.
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

// Text returns s with each secret replaced by "[secret: RULE]", and s itself if it
// has none.
func Text(s string) string { return text(s, false) }

const mostRounds = 4 // of looking at a text; two are enough for all but what was made to need more

// text scrubs a text until nothing more is found in it.
func text(s string, aws bool) string {
	for range mostRounds {
		out := replace(s, find(s, aws, false))
		if out == s {
			return s
		}
		s = out
	}
	return mark("text") // not clean yet, so all of it goes
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

// Named reports whether a value is a secret if it stands under that name.
func Named(name, value string) bool { return classify(name).value(value) }
