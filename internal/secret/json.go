package secret

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/tailscale/hujson"

	"mcpschedd/internal/jsonrpc"
)

// JSON returns a JSON value in which each secret, in a value or in a member's name at
// any depth, is replaced by "[secret: RULE]". It returns object itself if there are
// none. A number that is a secret becomes a string; no other value changes its type, and
// no member or element is removed. Invalid JSON or UTF-8 is treated as text and returned
// as a JSON string.
func JSON(object []byte) []byte {
	if !jsonrpc.Valid(object) {
		return jsonrpc.AppendString(nil, Text(strings.ToValidUTF8(string(object), "\ufffd")))
	}
	root, err := hujson.Parse(object)
	if err != nil {
		return jsonrpc.AppendString(nil, mark("text")) // unreachable: hujson parses all valid JSON
	}
	scrub(&root, kind{})
	if out := root.Pack(); !bytes.Equal(out, object) {
		return out
	}
	return object
}

// scrub replaces the secrets in a value with a name of kind k.
func scrub(v *hujson.Value, k kind) {
	switch of := v.Value.(type) {
	case *hujson.Object:
		scrubObject(of, k)
	case *hujson.Array:
		scrubArray(of, k)
	case hujson.Literal:
		switch of.Kind() {
		case '"':
			scrubText(v, k, nil)
		case '0':
			if k.isStrong() && k.isSecret(string(of)) || k.when == "digits" && len(of) >= 3 {
				v.Value = hujson.Literal(jsonrpc.AppendString(nil, mark(k.rule)))
			}
		}
	}
}

// scrubObject replaces the secrets in an object. Members of an object with a secret's name
// are secret if they look random. One member may name another: {"name": "Password",
// "value": "hunter2"}.
func scrubObject(o *hujson.Object, above kind) {
	var beside kind
	for _, m := range o.Members {
		switch s, ok := literal(m.Value); strings.ToLower(nameOf(m)) {
		case "name", "key", "header", "variable", "parameter", "param", "option",
			"field", "label", "element", "selector", "placeholder":
			for word := range strings.FieldsSeq(s) { // "Password input field"
				if k := classify(word); ok && k.isStrong() {
					beside = k
				}
			}
		}
	}
	for i := range o.Members {
		m := &o.Members[i]
		k := classify(nameOf(*m))
		scrubText(&m.Name, kind{}, nil)
		if k.when == "" && above.isStrong() {
			k = kind{above.rule, "likely"}
		}
		switch strings.ToLower(nameOf(*m)) {
		case "value", "text", "val", "content", "default":
			if k.when == "" {
				k = beside
			}
		}
		scrub(&m.Value, k)
	}
}

func nameOf(m hujson.ObjectMember) string {
	name, _ := literal(m.Name)
	return name
}

// scrubArray replaces the secrets in an array, which may be a command: ["mysql",
// "-phunter2"], ["--password", "hunter2"]. So its texts are also searched as one line,
// in which each is a word. It may also be the lines of a private key.
func scrubArray(list *hujson.Array, k kind) {
	var line strings.Builder
	starts := make([]int, len(list.Elements)) // offsets in line
	for i, e := range list.Elements {
		starts[i] = line.Len()
		s, _ := literal(e)
		line.WriteString(strings.Map(inWord, s) + " ")
	}
	found := shaped(line.String(), false)
	var armor Armor
	for i := range list.Elements {
		e, own := &list.Elements[i], k
		s, ok := literal(*e)
		if i > 0 && !option().MatchString(s) {
			if before, _ := literal(list.Elements[i-1]); isOption(before) {
				own = cmp.Or(classify(before), k)
			}
		}
		if !ok {
			armor = Armor{}
			scrub(e, own)
			continue
		}
		if armor.Body([]byte(s)) {
			own = kind{"private-key", "always"}
		}
		var inside []Span
		for _, p := range found {
			if p.From >= starts[i] && p.From < starts[i]+len(s) {
				inside = append(inside, Span{p.From - starts[i], min(len(s), p.To-starts[i]), "", p.rule})
			}
		}
		scrubText(e, own, inside)
	}
}

// inWord replaces the characters that separate words or end a value.
func inWord(c rune) rune {
	if strings.ContainsRune(" \t\r\n\"'`&;<\\", c) {
		return '_'
	}
	return c
}

// scrubText replaces a string that is a secret under a name of kind k, or the secrets in it.
// inside are parts that are secret because of neighbouring values.
func scrubText(v *hujson.Value, k kind, inside []Span) {
	s, _ := literal(*v)
	out := replace(s, merge(append(inside, find(s, false)...)))
	if k.isSecret(s) || out != s && k.isStrong() {
		out = mark(k.rule)
	}
	if out != s {
		v.Value = hujson.Literal(jsonrpc.AppendString(nil, out))
	}
}

// literal returns the value if it is a string.
func literal(v hujson.Value) (string, bool) {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return "", false
	}
	return jsonrpc.String(l)
}
