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
	"strings"

	"mcpschedd/internal/jsonrpc"
)

const (
	markBegin = "[secret: "
	markEnd   = "]"
)

func mark(rule string) string { return markBegin + rule + markEnd }

// Text returns s with each secret replaced by "[secret: RULE]", and s itself if it
// has none.
func Text(s string) string {
	s, _ = clean(s, false)
	return s
}

const (
	mostRounds = 4      // of looking at a text; two are enough for all but what was made to need more
	everything = "text" // the rule for a text that is still not clean then, and goes whole
)

// clean scrubs a text until nothing more is found in it. aws says that there is the
// id of an AWS key around it; so does what it returns.
func clean(s string, aws bool) (string, bool) {
	for range mostRounds {
		out, here := once(s, aws)
		aws = aws || here
		if out == s {
			return s, aws
		}
		s = out
	}
	return mark(everything), aws
}

// once scrubs a text once.
func once(s string, aws bool) (string, bool) {
	spans := shaped(s)
	if aws = aws || idOfKey(s, spans); aws {
		spans = besideID(s, spans)
	}
	done := 0
	var out strings.Builder
	for _, p := range named(s, spans) {
		if p.rule == "" {
			continue
		}
		out.WriteString(s[done:p.from])
		out.WriteString(mark(p.rule))
		done = p.to
	}
	if done == 0 {
		return s, aws
	}
	out.WriteString(s[done:])
	return out.String(), aws
}

// JSON returns a JSON value in which each secret is replaced by "[secret: RULE]",
// whatever its depth and whether it stands in a value or in the name of a member,
// and object itself if there is none. A number that is a secret becomes a string;
// nothing else changes its kind, and no member or element goes. What is no valid
// JSON in UTF-8 is treated as a text, and returned as a JSON string.
func JSON(object []byte) []byte {
	if !jsonrpc.Valid(object) {
		return jsonrpc.AppendString(nil, Text(strings.ToValidUTF8(string(object), "\ufffd")))
	}
	w := walk{in: object}
	w.value(0, scope{})
	if w.aws { // what stands before the id is looked at with other eyes
		w.edits = nil
		w.value(0, scope{})
	}
	return w.result()
}

// span is a part of a text that is a secret. Without a rule it is a mark that
// stands there already.
type span struct {
	from, to int
	rule     string
}
