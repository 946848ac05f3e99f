package secret

import (
	"strings"

	"github.com/tailscale/hujson"

	"mcpschedd/internal/jsonrpc"
)

// JSON returns a JSON value in which each secret is replaced by "[secret: RULE]",
// whatever its depth and whether it stands in a value or in the name of a member,
// and object itself if there is none. A number that is a secret becomes a string;
// nothing else changes its kind, and no member or element goes. What is no valid
// JSON in UTF-8 is treated as a text, and returned as a JSON string.
func JSON(object []byte) []byte {
	if !jsonrpc.Valid(object) {
		return jsonrpc.AppendString(nil, Text(strings.ToValidUTF8(string(object), "\ufffd")))
	}
	root, err := hujson.Parse(object)
	if err != nil {
		return jsonrpc.AppendString(nil, mark("text")) // it parses whatever is valid
	}
	w := scrubber{}
	for range mostRounds { // until nothing more is found in it
		before := w
		if w.value(&root, scope{}); w == before {
			break
		}
	}
	if w.edits == 0 {
		return object
	}
	return root.Pack()
}

// scrubber goes through a JSON value.
type scrubber struct {
	aws   bool // the id of an AWS key stands in it
	edits int
}

// scope is what the names above a value say of it.
type scope struct {
	kind  kind
	loose bool // it is that of the object that the value is a member of: what is in it need not be secret
}

func (k scope) value(s string) bool { return k.kind.value(s) && (!k.loose || looksRandom(s)) }

func (w *scrubber) value(v *hujson.Value, k scope) {
	switch of := v.Value.(type) {
	case *hujson.Object:
		w.object(of, k)
	case *hujson.Array:
		w.array(of, k, "")
	case hujson.Literal:
		switch of.Kind() {
		case '"':
			w.text(v, k, nil)
		case '0':
			if !k.loose && k.kind.number(len(of)) {
				w.set(v, mark(k.kind.rule))
			}
		}
	}
}

// object goes through an object.
func (w *scrubber) object(o *hujson.Object, above scope) {
	command, said := w.siblings(o)
	for i := range o.Members {
		m := &o.Members[i]
		w.text(&m.Name, scope{}, nil)
		name, _ := literal(m.Name) // of which nothing is secret any more
		k := scope{kind: classify(name)}
		if k.kind == plain && above.kind.strong() && !isAbout(name) {
			k = scope{kind: above.kind, loose: true}
		}
		_, isText := literal(m.Value)
		list, isList := m.Value.Value.(*hujson.Array)
		switch strings.ToLower(name) {
		case "value", "text", "val", "content", "default":
			if said != plain && isText && k.kind == plain {
				k = scope{kind: said}
			}
		case "args", "argv", "arguments":
			if isList {
				w.array(list, k, command)
				continue
			}
		}
		w.value(&m.Value, k)
	}
}

// siblings are what members of an object say of others: {"command": "sshpass", "args": ["-p",
// "hunter2"]}, {"name": "Password", "value": "hunter2"}.
func (w *scrubber) siblings(o *hujson.Object) (command string, said kind) {
	for _, m := range o.Members {
		name, _ := literal(m.Name)
		s, ok := literal(m.Value)
		if !ok {
			continue
		}
		k := plain
		switch strings.ToLower(name) {
		case "command", "cmd", "program", "executable":
			command = s + " "
		case "name", "key", "header", "variable", "parameter", "param", "option":
			k = classify(text(s, w.aws))
		case "field", "label", "element", "selector", "placeholder":
			k = phrase(text(s, w.aws))
		}
		if said == plain {
			said = k
		}
	}
	return command, said
}

// array goes through an array. An element may be an option that says what the next is:
// ["--password", "hunter2"]; what an option of one letter says depends on the command before
// it, ["curl", "-u", "bob:hunter2"], so that the elements are looked at as a line as well.
func (w *scrubber) array(list *hujson.Array, above scope, command string) {
	line := []byte(command)
	begins := make([]int, len(list.Elements))
	said := make([]kind, len(list.Elements)+1) // of each by the option before it
	for i, e := range list.Elements {
		begins[i] = len(line)
		if s, ok := literal(e); ok {
			if option.MatchString(s) {
				said[i] = plain // the one before it has no value
			}
			word := strings.Map(unspaced, filled(s, find(s, w.aws, false)))
			if isOption(s) && classify(s) != plain {
				said[i+1] = classify(s)
				word = strings.Repeat("_", len(word)) // it says nothing more in the line
			}
			line = append(line, word...)
		}
		line = append(line, ' ')
	}
	a := assigner{s: string(line)}
	found := a.find()
	for i := range list.Elements {
		e, k := &list.Elements[i], above
		if k.kind == plain {
			k.kind = said[i]
		}
		s, ok := literal(*e)
		if !ok {
			w.value(e, k)
			continue
		}
		var inside []span
		if said[i].value(strings.Join(strings.Fields(s), "_")) { // which stands by itself, so that it is no sentence
			inside = append(inside, span{0, len(s), said[i].rule, ""})
		}
		for _, p := range found { // by an option, not by a word that may be anything in a list
			if (p.name == "" || p.name[0] == '-') && p.from >= begins[i] && p.from < begins[i]+len(s) {
				inside = append(inside, span{p.from - begins[i], min(len(s), p.to-begins[i]), p.rule, ""})
			}
		}
		w.text(e, k, inside)
	}
}

// unspaced keeps the words of a line apart from those within one of its elements.
func unspaced(c rune) rune {
	if strings.ContainsRune(" \t\r\n\"'`&;<\\|=", c) {
		return '_'
	}
	return c
}

// text scrubs a string; inside are parts of it that are secrets by what stands beside it.
func (w *scrubber) text(v *hujson.Value, k scope, inside []span) {
	s, _ := literal(*v)
	if m := marked.FindStringIndex(s); m != nil && m[0] == 0 && m[1] == len(s) {
		w.aws = w.aws || s == mark(awsID)
		return
	}
	found := find(s, w.aws, false)
	w.aws = w.aws || hasAWSID(s, found)
	out := s
	switch found = apart(append(inside, found...)); {
	case k.value(s) || replace(s, found) != s && k.kind.strong() && !k.loose:
		out = mark(k.kind.rule)
	case len(found) > 0:
		out = text(replace(s, found), w.aws)
	}
	if out != s {
		w.set(v, out)
	}
}

func (w *scrubber) set(v *hujson.Value, s string) {
	v.Value = hujson.Literal(jsonrpc.AppendString(nil, s))
	w.edits++
}

// literal is a value that is a string.
func literal(v hujson.Value) (string, bool) {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return "", false
	}
	return jsonrpc.String(l)
}
