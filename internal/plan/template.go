package plan

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"mcpschedd/internal/jsonrpc"
)

// Template is a JSON value with references in it.
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
	root *node
	refs []*Ref
	at   string // JSON pointer in the plan
}

// node is one value of a template. If all but the first of its fields are nil, it is
// the empty object or array that they would be part of; then constant is not nil.
type node struct {
	constant []byte  // compact JSON; nil: there are references in it, and it is one of
	ref      *Ref    // what this stands for
	text     []piece // a $tpl
	members  []member
	elements []element
}

type member struct {
	key   []byte // as written, with its quotes
	name  string
	value *node
}

// element is one of an array, or several constants in a row with commas between
// them: of a large array most are, and what is known of each would take more room
// than they do.
type element struct {
	value *node
	n     int // how many
}

// piece is a part of a $tpl.
type piece struct {
	text string
	ref  *Ref // nil: text
}

const (
	maxNesting = 64    // of objects and arrays in a template: as much as a key of the store may have
	maxRefs    = 1_000 // of a template
	maxDefects = 100   // that are told of a template
)

// parseTemplate reads a JSON value with references. at is the JSON pointer of the
// value in the plan; known says what references can lead to (nil: nothing is known),
// and so what was meant to be one.
func parseTemplate(raw []byte, at string, known func(id string) bool) (*Template, Defects) {
	if !jsonrpc.Valid(raw) {
		return nil, Defects{{Pointer: at, Message: "no valid JSON"}}
	}
	p := templateParser{known: known}
	root := p.value(trimmed(raw), at, 1)
	if len(p.refs) > maxRefs {
		p.defect(at, fmt.Sprintf("more than %d references", maxRefs))
	}
	if len(p.defects) > 0 {
		return nil, p.defects
	}
	return &Template{root: root, refs: p.refs, at: at}, nil
}

// Refs are the references in their order; what is referred to twice is there twice.
func (t *Template) Refs() []*Ref { return t.refs }

// Constant is the value, as compact JSON, if there are no references in it; else nil.
// It is not to be changed.
func (t *Template) Constant() []byte { return t.root.constant }

// templateParser collects what it comes by.
type templateParser struct {
	known   func(id string) bool // what a reference can lead to; nil: nothing
	only    bool                 // nothing but a reference may stand there
	refs    []*Ref
	defects Defects
}

// enough reports whether there is too much to make a template of: to read on would
// only take memory.
func (p *templateParser) enough() bool { return len(p.refs) > maxRefs || len(p.defects) >= maxDefects }

func (p *templateParser) defect(at, message string) {
	if len(p.defects) < maxDefects {
		p.defects = append(p.defects, Defect{Pointer: at, Message: message})
	}
}

// value reads a value that begins at some depth: the outermost object has 1.
func (p *templateParser) value(raw []byte, at string, depth int) *node {
	switch {
	case raw[0] == '"':
		return p.text(raw, at)
	case raw[0] != '{' && raw[0] != '[':
		return &node{constant: raw}
	case !mayRefer(raw):
		return &node{constant: p.literal(raw, at, depth)}
	case depth > maxNesting:
		p.defect(at, fmt.Sprintf("nested deeper than %d values", maxNesting))
		return &node{constant: raw}
	case raw[0] == '{':
		return p.object(raw, at, depth)
	}
	return p.array(raw, at, depth)
}

// mayRefer is false of what is a constant for certain, which most of what is large is.
func mayRefer(raw []byte) bool {
	return bytes.IndexByte(raw, '$') >= 0 || bytes.Contains(raw, []byte(`\u0024`))
}

// text reads a string: a reference, a text that is meant to look like one, or any.
func (p *templateParser) text(raw []byte, at string) *node {
	if !mayRefer(raw) {
		return &node{constant: raw}
	}
	text, _ := jsonrpc.String(raw)
	dollars := 0
	for dollars < len(text) && text[dollars] == '$' {
		dollars++
	}
	if dollars > 1 && markAt(text[dollars-1:]) > 0 {
		return &node{constant: jsonrpc.AppendString(nil, text[1:])}
	}
	if markAt(text) > 0 {
		r, wrong := guideRef(text, at)
		if wrong != "" {
			p.defect(at, wrong)
			return &node{constant: raw}
		}
		return p.ref(r)
	}
	if findMark(text) >= 0 {
		p.defect(at, withinText(text))
	} else {
		p.plainText(text, at)
	}
	return &node{constant: raw}
}

func (p *templateParser) ref(r *Ref) *node {
	p.refs = append(p.refs, r)
	return &node{ref: r}
}

func (p *templateParser) array(raw []byte, at string, depth int) *node {
	n := &node{}
	i := 0
	for e := range jsonrpc.Elements(raw) {
		if p.enough() {
			break
		}
		if e[0] != '{' && e[0] != '[' && !mayRefer(e) {
			n.constantElement(e)
		} else if v := p.value(e, at+"/"+strconv.Itoa(i), depth+1); v.constant != nil {
			n.constantElement(v.constant)
		} else {
			n.elements = append(n.elements, element{v, 1})
		}
		i++
	}
	if len(n.elements) == 0 || len(n.elements) == 1 && n.elements[0].value.constant != nil {
		return n.settle('[', ']')
	}
	return n
}

// constantElement adds one more constant to an array.
func (n *node) constantElement(raw []byte) {
	if k := len(n.elements); k > 0 && n.elements[k-1].value.constant != nil {
		last := &n.elements[k-1]
		last.value.constant = append(append(last.value.constant, ','), raw...)
		last.n++
		return
	}
	n.elements = append(n.elements, element{&node{constant: slices.Clone(raw)}, 1})
}

func (p *templateParser) object(raw []byte, at string, depth int) *node {
	names := p.members(raw, at)
	for _, form := range [...]string{"$lit", "$tpl"} {
		if names[form] && len(names) > 1 {
			p.defect(at, fmt.Sprintf("%q has to be the only member of its object", form))
			return &node{constant: raw}
		}
	}
	switch {
	case names["$lit"]:
		return &node{constant: p.literal(jsonrpc.Get(raw, "$lit"), at+"/$lit", depth)}
	case names["$tpl"]:
		return p.tpl(jsonrpc.Get(raw, "$tpl"), at+"/$tpl")
	case names["$ref"]:
		before := len(p.defects)
		if r := p.refObject(raw, at, depth); r != nil {
			return p.ref(r)
		} else if len(p.defects) > before {
			return &node{constant: raw}
		}
	}
	n := &node{}
	constant := true
	for m := range jsonrpc.Members(raw) {
		if p.enough() {
			break
		}
		name := string(m.Name)
		if target, _ := p.refText(name); target != "" || markAt(name) > 0 {
			p.defect(at, quoted(name)+": the name of a member cannot be a reference"+p.orObject())
		}
		v := p.value(m.Value, at+"/"+jsonrpc.PointerToken(name), depth+1)
		constant = constant && v.constant != nil
		n.members = append(n.members, member{jsonrpc.AppendString(nil, name), name, v})
	}
	if constant {
		return n.settle('{', '}')
	}
	return n
}

// members are the names of an object; one that is there twice is a defect, as two
// readers may take different ones.
func (p *templateParser) members(raw []byte, at string) map[string]bool {
	names := make(map[string]bool)
	for m := range jsonrpc.Members(raw) {
		name := string(m.Name)
		if names[name] {
			p.defect(at, quoted(name)+": is there twice")
		}
		names[name] = true
	}
	return names
}

// literal reads a value in which nothing is a reference.
func (p *templateParser) literal(raw []byte, at string, depth int) []byte {
	p.unambiguous(raw, at, depth)
	return appendCompact(make([]byte, 0, len(raw)), raw)
}

func (p *templateParser) unambiguous(raw []byte, at string, depth int) {
	if raw[0] != '{' && raw[0] != '[' {
		return
	}
	if depth > maxNesting {
		p.defect(at, fmt.Sprintf("nested deeper than %d values", maxNesting))
		return
	}
	p.members(raw, at)
	for m := range jsonrpc.Members(raw) {
		if m.Value[0] == '{' || m.Value[0] == '[' {
			p.unambiguous(m.Value, at+"/"+jsonrpc.PointerToken(string(m.Name)), depth+1)
		}
	}
	i := 0
	for e := range jsonrpc.Elements(raw) {
		if e[0] == '{' || e[0] == '[' {
			p.unambiguous(e, at+"/"+strconv.Itoa(i), depth+1)
		}
		i++
	}
}

// settle makes one constant of an object or array of constants.
func (n *node) settle(begin, end byte) *node {
	all := []byte{begin}
	for i, m := range n.members {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(append(append(all, m.key...), ':'), m.value.constant...)
	}
	for i, e := range n.elements {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, e.value.constant...)
	}
	return &node{constant: append(all, end)}
}

// appendCompact appends a valid JSON value without the white space in it.
func appendCompact(dst, raw []byte) []byte {
	dst = slices.Grow(dst, len(raw))
	done := 0 // raw[:done] is in dst
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case ' ', '\t', '\r', '\n':
			dst = append(dst, raw[done:i]...)
			done = i + 1
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return append(dst, raw[done:]...)
}
