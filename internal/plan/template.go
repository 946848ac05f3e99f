package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Template is a JSON value with references in it.
//
// A string that is a whole reference, "$ref:step", "$ref:step.field" or "$result_step", is
// replaced by the referenced value, and so is {"$ref": "step#/pointer"}, optionally with a
// "default". {"$tpl": "text ${step#/pointer}"} is a string with references, and {"$lit": value}
// is the value unchanged. "$$ref:" escapes "$ref:", and "$${" escapes "${" in a $tpl.
//
// A reference that would be sent as text by mistake is a defect: one inside a string or a member
// name, one with extra members, or one to a step of the plan in an unsupported form. Any other
// object with a "$ref" is unchanged: it may be part of a JSON Schema.
type Template struct {
	at    string   // JSON pointer to the value in the plan
	text  [][]byte // compact JSON around the holes; len(holes)+1 pieces
	holes []hole
	refs  []*Ref
}

// hole is a place in a template for a reference or a string with references.
type hole struct {
	path []string // names and indexes from the root
	ref  *Ref     // nil for a $tpl
	tpl  []piece
}

// piece is a part of a $tpl: text or a reference.
type piece struct {
	text string
	ref  *Ref // nil for text
}

const (
	maxNesting = 64    // nesting depth of a plan, the same as for keys of the store
	maxRefs    = 1_000 // references in a template
)

// parseTemplate parses a JSON value with references, and returns nil after a defect. known
// reports whether a step id exists, to recognize mistaken references; nil means that this is not
// known. The value must be unambiguous.
func parseTemplate(v node, known func(id string) bool) *Template {
	p := templateParser{place: v.place, known: known, t: Template{at: v.pointer}}
	p.value(trimmed(v.raw))
	if len(p.t.refs) > maxRefs {
		p.path = nil
		p.defect("more than %d references", maxRefs)
	}
	if p.defects > 0 {
		return nil
	}
	p.t.text = append(p.t.text, p.out)
	return &p.t
}

// Refs returns the references in order, including repeated ones.
func (t *Template) Refs() []*Ref { return t.refs }

// Constant returns the value as compact JSON that must not be modified, or nil if it has
// references.
func (t *Template) Constant() []byte {
	if len(t.holes) > 0 {
		return nil
	}
	return t.text[0]
}

// templateParser walks a value and collects the text and the holes.
type templateParser struct {
	place   place                // place of the value
	known   func(id string) bool // reports whether a step id exists; may be nil
	t       Template
	out     []byte   // text after the last hole
	path    []string // path to the current value
	defects int      // number of defects
}

func (p *templateParser) pointer() string { return p.t.at + pointerTo(p.path) }

func (p *templateParser) defect(format string, args ...any) {
	p.defects++
	p.place.at(p.pointer()).errorf(format, args...)
}

// tooMuch reports whether to stop because there are too many references or defects.
func (p *templateParser) tooMuch() bool { return len(p.t.refs) > maxRefs || p.defects > maxDefects }

func (p *templateParser) value(raw []byte) {
	switch raw[0] {
	case '"':
		p.string(raw)
	case '{':
		p.object(raw)
	case '[':
		p.out = append(p.out, '[')
		i := 0
		for e := range jsonrpc.Elements(raw) {
			if i > 0 {
				p.out = append(p.out, ',')
			}
			p.within(strconv.Itoa(i), func() { p.value(e) })
			if i++; p.tooMuch() {
				break
			}
		}
		p.out = append(p.out, ']')
	default:
		p.out = append(p.out, raw...)
	}
}

// within calls read with name appended to the path.
func (p *templateParser) within(name string, read func()) {
	p.path = append(p.path, name)
	read()
	p.path = p.path[:len(p.path)-1]
}

// hole adds a hole at the current path.
func (p *templateParser) hole(h hole, refs ...*Ref) {
	h.path = slices.Clone(p.path)
	p.t.text, p.out = append(p.t.text, p.out), nil
	p.t.holes = append(p.t.holes, h)
	p.t.refs = append(p.t.refs, refs...)
}

// string parses a string: a reference, an escaped reference or plain text.
func (p *templateParser) string(raw []byte) {
	text, _ := jsonrpc.String(raw)
	dollars := len(text) - len(strings.TrimLeft(text, "$"))
	switch at := findMark(text); {
	case dollars > 1 && at == dollars-1:
		p.out = jsonrpc.AppendString(p.out, text[1:])
		return
	case at == 0:
		if r := p.guideRef(text); r != nil {
			p.hole(hole{ref: r}, r)
		}
		return
	case at > 0:
		p.notWhole(text)
	default:
		if id := p.looseText(text); id != "" {
			p.defect(`%s: a text with references in it is {"$tpl": "… ${%s#/json/pointer} …"}, a value {"$ref": "%[2]s#/json/pointer"}%[3]s`, quoted(text), id, textAsIs)
		}
	}
	p.out = append(p.out, raw...)
}

func (p *templateParser) object(raw []byte) {
	members := 0
	form := "" // "$lit", "$tpl" or "$ref"
	for m := range jsonrpc.Members(raw) {
		members++
		if name := string(m.Name); name == "$lit" || name == "$tpl" || name == "$ref" && form == "" {
			form = name
		}
	}
	switch {
	case form != "" && form != "$ref" && members > 1:
		p.defect("%q has to be the only member of its object", form)
		return
	case form == "$lit":
		p.out = append(p.out, compact(jsonrpc.Get(raw, "$lit"))...)
		return
	case form == "$tpl":
		p.within("$tpl", func() { p.tpl(jsonrpc.Get(raw, "$tpl")) })
		return
	case form == "$ref":
		before := p.defects
		if r := p.refObject(raw); r != nil {
			p.hole(hole{ref: r}, r)
			return
		} else if p.defects > before {
			return
		}
	}
	p.out = append(p.out, '{')
	first := true
	for m := range jsonrpc.Members(raw) {
		name := string(m.Name)
		if p.looseText(name) != "" || findMark(name) == 0 {
			p.defect("%s: the name of a member cannot be a reference%s", quoted(name), objectAsIs)
		}
		if !first {
			p.out = append(p.out, ',')
		}
		first = false
		p.out = append(jsonrpc.AppendString(p.out, name), ':')
		p.within(name, func() { p.value(m.Value) })
		if p.tooMuch() {
			break
		}
	}
	p.out = append(p.out, '}')
}

// tpl parses the text of a $tpl. In front of a brace, two dollars are an escaped one, and a
// remaining one begins a reference. So "$${" is "${", and "$$${a#/price}" is a dollar and a
// price.
func (p *templateParser) tpl(raw []byte) {
	text, ok := jsonrpc.String(raw)
	if !ok {
		p.defect("want a string, have %s", kindOf(raw))
		return
	}
	h := hole{}
	var refs []*Ref
	plain := ""
	for text != "" && len(refs) <= maxRefs && !p.tooMuch() {
		before, rest, _ := strings.Cut(text, "$")
		plain += before
		if before == text {
			break
		}
		dollars := 1 + len(rest) - len(strings.TrimLeft(rest, "$"))
		text = rest[dollars-1:]
		guides := findMark("$"+text[:min(len(text), maxMarkLen)]) == 0
		switch {
		case guides && dollars == 1:
			p.notWhole("$" + text)
			return
		case guides:
			plain += strings.Repeat("$", dollars-1)
		case !strings.HasPrefix(text, "{"):
			plain += strings.Repeat("$", dollars)
		default:
			plain += strings.Repeat("$", dollars/2)
			if dollars%2 == 0 {
				continue
			}
			var r *Ref
			if r, text = p.braces(text); r != nil {
				h.tpl = append(h.tpl, piece{text: plain}, piece{ref: r})
				refs = append(refs, r)
				plain = ""
			}
		}
	}
	if refs == nil {
		p.out = jsonrpc.AppendString(p.out, plain)
		return
	}
	h.tpl = append(h.tpl, piece{text: plain})
	p.path = p.path[:len(p.path)-1] // the hole is the whole object
	p.hole(h, refs...)
	p.path = append(p.path, "$tpl")
}

// braces parses a reference from a text that begins with its "{", and returns the rest.
func (p *templateParser) braces(text string) (r *Ref, rest string) {
	inner, rest, closed := strings.Cut(text[1:], "}")
	if id, pointer, ok := cutTarget(inner); ok && closed {
		return p.ref(id, pointer), rest
	}
	p.defect(`%s: want ${step#/json/pointer}; "$${" puts "${" into the text`, quoted("$"+text[:len(text)-len(rest)]))
	return nil, rest
}

// ambiguous reports values that two parsers may interpret differently as defects: duplicate names
// in an object, and nesting too deep for a key of the store. It returns whether there are any.
func ambiguous(raw []byte, at place) (found bool) {
	var path []string
	report := func(format string, args ...any) {
		at.at(at.pointer+pointerTo(path)).errorf(format, args...)
		found = true
	}
	var check func(raw []byte)
	within := func(name string, raw []byte) {
		if raw[0] == '{' || raw[0] == '[' {
			path = append(path, name)
			check(raw)
			path = path[:len(path)-1]
		}
	}
	check = func(raw []byte) {
		if len(path) == maxNesting {
			report("nested deeper than %d values", maxNesting)
			return
		}
		var names []string
		for m := range jsonrpc.Members(raw) {
			names = append(names, string(m.Name))
			within(names[len(names)-1], m.Value)
		}
		slices.Sort(names)
		for i := 1; i < len(names); i++ {
			if names[i] == names[i-1] {
				report("%s: duplicate member", quoted(names[i]))
			}
		}
		i := 0
		for e := range jsonrpc.Elements(raw) {
			within(strconv.Itoa(i), e)
			i++
		}
	}
	if raw[0] == '{' || raw[0] == '[' {
		check(raw)
	}
	return found
}

// pointerTo returns the JSON pointer for a path.
func pointerTo(path []string) string {
	var pointer strings.Builder
	for _, name := range path {
		pointer.WriteString("/" + jsonrpc.PointerToken(name))
	}
	return pointer.String()
}

// compact returns a valid JSON value without white space.
func compact(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw // nested too deep for encoding/json
	}
	return out.Bytes()
}
