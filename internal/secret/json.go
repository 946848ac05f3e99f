package secret

import (
	"strings"

	"github.com/tailscale/hujson"

	"mcpschedd/internal/jsonrpc"
)

// JSON returns a JSON value in which each secret, in a value or in a member's name at any
// depth, is replaced by "[secret: RULE]". It returns object itself if there are none. A number
// that is a secret becomes a string; no other value changes its type, and no member or element
// is removed. Invalid JSON or UTF-8 is treated as text and returned as a JSON string.
func JSON(object []byte) []byte {
	if !jsonrpc.Valid(object) {
		return jsonrpc.AppendString(nil, Text(strings.ToValidUTF8(string(object), "\ufffd")))
	}
	root, err := hujson.Parse(object)
	if err != nil {
		return jsonrpc.AppendString(nil, mark("text")) // unreachable: hujson parses all valid JSON
	}
	w := scrubber{}
	for range maxRounds { // until no more secrets are found
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

// scrubber replaces the secrets in a JSON value.
type scrubber struct {
	aws   bool // the value contains the id of an AWS key
	edits int
}

// scope is the kind that the names above a value give it.
type scope struct {
	kind  kind
	loose bool // inherited from an enclosing object, whose members need not be secret
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

// object scrubs an object.
func (w *scrubber) object(o *hujson.Object, above scope) {
	command, said := w.siblings(o)
	for i := range o.Members {
		m := &o.Members[i]
		w.text(&m.Name, scope{}, nil)
		name, _ := literal(m.Name) // scrubbed already
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

// siblings returns the command and the kind that members of an object give to others:
// {"command": "sshpass", "args": ["-p", "hunter2"]}, {"name": "Password", "value": "hunter2"}.
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

// array scrubs an array. An element may be an option that gives the kind of the next:
// ["--password", "hunter2"]. The meaning of an option of one letter depends on the command
// before it, ["curl", "-u", "bob:hunter2"], so array also scans the elements as one line.
func (w *scrubber) array(list *hujson.Array, above scope, command string) {
	line := []byte(command)
	starts := make([]int, len(list.Elements))      // offsets in line
	byOption := make([]kind, len(list.Elements)+1) // kind given by the option before the element
	for i, e := range list.Elements {
		starts[i] = len(line)
		if s, ok := literal(e); ok {
			if option.MatchString(s) {
				byOption[i] = plain // the option before it has no value
			}
			word := strings.Map(unspaced, filled(s, find(s, w.aws, false)))
			if isOption(s) && classify(s) != plain {
				byOption[i+1] = classify(s)
				word = strings.Repeat("_", len(word)) // handled by byOption
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
			k.kind = byOption[i]
		}
		s, ok := literal(*e)
		if !ok {
			w.value(e, k)
			continue
		}
		var inside []span
		if byOption[i].value(strings.Join(strings.Fields(s), "_")) { // an argument is not a sentence, even with spaces
			inside = append(inside, span{0, len(s), byOption[i].rule, ""})
		}
		for _, p := range found { // only values of options: other words in a list have no relation
			if (p.name == "" || p.name[0] == '-') && p.from >= starts[i] && p.from < starts[i]+len(s) {
				inside = append(inside, span{p.from - starts[i], min(len(s), p.to-starts[i]), p.rule, ""})
			}
		}
		w.text(e, k, inside)
	}
}

// unspaced replaces the characters that separate words, so that an element is one word of a
// line.
func unspaced(c rune) rune {
	if strings.ContainsRune(" \t\r\n\"'`&;<\\|=", c) {
		return '_'
	}
	return c
}

// text scrubs a string. inside holds parts that are secret because of neighbouring values.
func (w *scrubber) text(v *hujson.Value, k scope, inside []span) {
	s, _ := literal(*v)
	if m := marked.FindStringIndex(s); m != nil && m[0] == 0 && m[1] == len(s) {
		w.aws = w.aws || s == mark(awsID)
		return
	}
	found := find(s, w.aws, false)
	w.aws = w.aws || hasAWSID(s, found)
	out := s
	switch found = merge(append(inside, found...)); {
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

// literal returns the value if it is a string.
func literal(v hujson.Value) (string, bool) {
	l, ok := v.Value.(hujson.Literal)
	if !ok || l.Kind() != '"' {
		return "", false
	}
	return jsonrpc.String(l)
}
