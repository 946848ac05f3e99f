package plan

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Template is a JSON value with references in it: text with holes.
//
// A text that is a reference as a whole, "$ref:step", "$ref:step.field" or
// "$result_step", stands for what it refers to, and so does {"$ref": "step#/pointer"},
// with or without a "default" beside it. {"$tpl": "text ${step#/pointer}"} is a text,
// and {"$lit": value} is the value as it is. "$$ref:" begins a text with "$ref:", and
// "$${" puts "${" into a $tpl.
//
// A reference that would go out as a text by mistake is a defect: one within a text,
// in a name, with more than it may have, or to a step of the plan in a form that is
// none. Any other object with a "$ref" is left alone: that is how JSON Schema writes
// its own.
type Template struct {
	at    string   // JSON pointer in the plan
	text  [][]byte // compact JSON around the holes: one piece more than there are holes
	holes []hole
	refs  []*Ref
}

// hole is a place in a template that a reference, or a text with references, goes into.
type hole struct {
	path []string // names and indexes from the outermost value on
	ref  *Ref     // nil: a $tpl
	tpl  []piece
}

// piece is a part of a $tpl.
type piece struct {
	text string
	ref  *Ref // nil: text
}

const (
	maxNesting = 64    // of objects and arrays in a plan: as much as a key of the store may have
	maxRefs    = 1_000 // of a template
)

// parseTemplate reads a JSON value with references; nil if something is wrong with it.
// known says what references can lead to (nil: nothing is known), and so what was meant to
// be one. The value has been found unambiguous before.
func parseTemplate(v node, known func(id string) bool) *Template {
	p := templateParser{place: v.place, known: known, t: Template{at: v.pointer}}
	p.value(trimmed(v.raw))
	if len(p.t.refs) > maxRefs {
		p.path = nil
		p.defect("more than %d references", maxRefs)
	}
	if p.wrong > 0 {
		return nil
	}
	p.t.text = append(p.t.text, p.out)
	return &p.t
}

// Refs are the references in their order; what is referred to twice is there twice.
func (t *Template) Refs() []*Ref { return t.refs }

// Constant is the value, as compact JSON, if there are no references in it; else nil.
// It is not to be changed.
func (t *Template) Constant() []byte {
	if len(t.holes) > 0 {
		return nil
	}
	return t.text[0]
}

// templateParser walks a value, and collects the text and the holes.
type templateParser struct {
	place place                // of the value
	known func(id string) bool // what a reference can lead to; nil: nothing
	t     Template
	out   []byte   // text since the last hole
	path  []string // to the value at hand
	wrong int      // defects of it
}

func (p *templateParser) pointer() string { return p.t.at + pointerTo(p.path) }

func (p *templateParser) defect(format string, args ...any) {
	p.wrong++
	p.place.at(p.pointer()).say(format, args...)
}

// enough reports whether there is too much to make a template of: to read on would
// only take memory.
func (p *templateParser) enough() bool { return len(p.t.refs) > maxRefs || p.wrong > mostDefects }

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
			if i++; p.enough() {
				break
			}
		}
		p.out = append(p.out, ']')
	default:
		p.out = append(p.out, raw...)
	}
}

// within reads what stands under a name or an index.
func (p *templateParser) within(name string, read func()) {
	p.path = append(p.path, name)
	read()
	p.path = p.path[:len(p.path)-1]
}

// hole is what the value at hand is filled with.
func (p *templateParser) hole(h hole, refs ...*Ref) {
	h.path = slices.Clone(p.path)
	p.t.text, p.out = append(p.t.text, p.out), nil
	p.t.holes = append(p.t.holes, h)
	p.t.refs = append(p.t.refs, refs...)
}

// string reads a string: a reference, a text that is meant to look like one, or any.
func (p *templateParser) string(raw []byte) {
	text, _ := jsonrpc.String(raw)
	dollars := len(text) - len(strings.TrimLeft(text, "$"))
	switch at := mark(text); {
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
		before := p.wrong
		if r := p.refObject(raw); r != nil {
			p.hole(hole{ref: r}, r)
			return
		} else if p.wrong > before {
			return
		}
	}
	p.out = append(p.out, '{')
	first := true
	for m := range jsonrpc.Members(raw) {
		name := string(m.Name)
		if p.looseText(name) != "" || mark(name) == 0 {
			p.defect("%s: the name of a member cannot be a reference%s", quoted(name), objectAsIs)
		}
		if !first {
			p.out = append(p.out, ',')
		}
		first = false
		p.out = append(jsonrpc.AppendString(p.out, name), ':')
		p.within(name, func() { p.value(m.Value) })
		if p.enough() {
			break
		}
	}
	p.out = append(p.out, '}')
}

// tpl reads the text of a $tpl. Of the dollars in front of a brace, two stand for
// one; one that is left begins a reference. So "$${" is "${", and "$$${a#/price}" is
// a dollar and a price.
func (p *templateParser) tpl(raw []byte) {
	text, ok := jsonrpc.String(raw)
	if !ok {
		p.defect("want a string, have %s", kindOf(raw))
		return
	}
	h := hole{}
	var refs []*Ref
	plain := ""
	for text != "" && len(refs) <= maxRefs && !p.enough() {
		before, rest, _ := strings.Cut(text, "$")
		plain += before
		if before == text {
			break
		}
		dollars := 1 + len(rest) - len(strings.TrimLeft(rest, "$"))
		text = rest[dollars-1:]
		guides := mark("$"+text[:min(len(text), longestMark)]) == 0
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
	p.path = p.path[:len(p.path)-1] // the hole is where the object stands
	p.hole(h, refs...)
	p.path = append(p.path, "$tpl")
}

// braces reads a reference, whose "{" a text begins with, and returns the rest.
func (p *templateParser) braces(text string) (r *Ref, rest string) {
	inner, rest, closed := strings.Cut(text[1:], "}")
	if id, pointer, ok := cutTarget(inner); ok && closed {
		return p.ref(id, pointer), rest
	}
	p.defect(`%s: want ${step#/json/pointer}; "$${" puts "${" into the text`, quoted("$"+text[:len(text)-len(rest)]))
	return nil, rest
}

// ambiguous says of each place in a value what two readers may take for different things:
// a name that is there twice in its object, or nesting too deep for a key of the store. It
// reports whether there is any.
func ambiguous(raw []byte, at place) (found bool) {
	var path []string
	say := func(format string, args ...any) {
		at.at(at.pointer+pointerTo(path)).say(format, args...)
		found = true
	}
	var look func(raw []byte)
	within := func(name string, raw []byte) {
		if raw[0] == '{' || raw[0] == '[' {
			path = append(path, name)
			look(raw)
			path = path[:len(path)-1]
		}
	}
	look = func(raw []byte) {
		if len(path) == maxNesting {
			say("nested deeper than %d values", maxNesting)
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
				say("%s: is there twice", quoted(names[i]))
			}
		}
		i := 0
		for e := range jsonrpc.Elements(raw) {
			within(strconv.Itoa(i), e)
			i++
		}
	}
	if raw[0] == '{' || raw[0] == '[' {
		look(raw)
	}
	return found
}

// pointerTo is the JSON pointer that leads along a path.
func pointerTo(path []string) string {
	var pointer strings.Builder
	for _, name := range path {
		pointer.WriteString("/" + jsonrpc.PointerToken(name))
	}
	return pointer.String()
}

// compact is a valid JSON value without the white space in it.
func compact(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw // nested deeper than encoding/json reads
	}
	return out.Bytes()
}
