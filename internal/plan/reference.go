package plan

import (
	"fmt"
	"regexp"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Ref is a reference to the result of a step, or to params, item or index.
type Ref struct {
	Step    string // id
	Pointer string // JSON pointer into its value; "": the whole
	Null    bool   // what is missing is null, as in the guide; else it is an error without a Default
	Default []byte // stands in for what is missing; nil: nothing does
	At      string // JSON pointer of the reference itself, in the plan
}

func (r *Ref) String() string { return r.Step + "#" + r.Pointer }

// maxTokens is how far into a value a pointer may lead. Each token reads the value
// once more.
const maxTokens = 64

// A reference is written in one of two languages: the guide's "$ref:step.field" (or
// "$result_step"), and {"$ref": "step#/json/pointer"}, "${step#/json/pointer}" in text.
var (
	guideForm = regexp.MustCompile(`^\$(?:ref:|result_)([A-Za-z0-9_-]+)((?:\.[^.\s\[\]$#]+)*)$`)
	// marked is what begins a reference of the guide, wherever it stands.
	marked = regexp.MustCompile(`\$(?:ref:|result_[A-Za-z0-9_-])`)
	// looseRef and looseText are the forms of other notations, and of $tpl outside of one.
	looseRef  = regexp.MustCompile(`^(?:\$\{|[#/$.]*)(?:steps[./])?([A-Za-z0-9_-]+)(?:[#./\[}](?s:.*))?$`)
	looseText = regexp.MustCompile(`\$\{([A-Za-z0-9_-]+)#`)
)

const (
	wantRef    = `want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}`
	textAsIs   = `; {"$lit": "…"} leaves a text as it is`
	objectAsIs = `; {"$lit": {…}} leaves an object as it is`
)

// parseRef reads a value that has to be a reference as a whole; nil if it is none. known
// says what references can lead to (nil: nothing is known).
func parseRef(v node, known func(id string) bool) *Ref {
	t := parseTemplate(v, known)
	switch {
	case t == nil:
		return nil
	case len(t.holes) == 1 && t.holes[0].ref != nil && len(t.text[0])+len(t.text[1]) == 0:
		return t.holes[0].ref
	}
	v.say("%s, have %s", wantRef, shown(v.raw))
	return nil
}

// longestMark is how long a mark is at most.
const longestMark = len("$result_") + 1

// mark is where the first reference of the guide begins in a text; -1: there is none.
func mark(text string) int {
	if !strings.Contains(text, "$ref:") && !strings.Contains(text, "$result_") {
		return -1
	}
	at := marked.FindStringIndex(text)
	if at == nil {
		return -1
	}
	return at[0]
}

// guideRef reads a text that begins with a mark: "$ref:step.field.nested".
func (p *templateParser) guideRef(text string) *Ref {
	m := guideForm.FindStringSubmatch(text)
	if m == nil {
		p.notWhole(text)
		return nil
	}
	var pointer strings.Builder
	for field := range strings.SplitSeq(strings.TrimPrefix(m[2], "."), ".") {
		if field != "" {
			pointer.WriteString("/" + jsonrpc.PointerToken(field))
		}
	}
	r := p.ref(m[1], pointer.String())
	if r != nil {
		r.Null = true
	}
	return r
}

// notWhole says what to do about a reference of the guide that is not the whole of its
// text, or has another notation's path behind it.
func (p *templateParser) notWhole(text string) {
	p.defect(`%s: a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}%s`, quoted(text), textAsIs)
}

// ref is a reference to a step.
func (p *templateParser) ref(id, pointer string) *Ref {
	if strings.Count(pointer, "/") > maxTokens {
		p.defect("%s: leads into more than %d values", quoted(id+"#"+pointer), maxTokens)
		return nil
	}
	return &Ref{Step: id, Pointer: pointer, At: p.pointer()}
}

// cutTarget is the step and the pointer of "step#/json/pointer"; false if a text is
// nothing of the kind.
func cutTarget(text string) (id, pointer string, ok bool) {
	id, pointer, ok = strings.Cut(text, "#")
	return id, pointer, ok && idForm.MatchString(id) && jsonrpc.ValidPointer(pointer)
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// refObject is the reference that an object with a "$ref" is; nil if it is none. Only the
// one form counts, as the arguments of a tool may well be a JSON Schema. What would be a
// reference to a step of this plan in another form is a defect: it would go to the tool
// as it is written.
func (p *templateParser) refObject(raw []byte) *Ref {
	text, ok := jsonrpc.String(jsonrpc.Get(raw, "$ref"))
	if !ok {
		return nil
	}
	id, pointer, ok := cutTarget(text)
	for m := range jsonrpc.Members(raw) {
		if name := string(m.Name); name != "$ref" && name != "default" {
			if ok && p.knows(id) {
				p.defect(`%s: no reference, as %s stands beside it: only "default" may%s`, quoted(text), quoted(name), objectAsIs)
			}
			return nil
		}
	}
	if !ok {
		p.looseRef(text)
		return nil
	}
	r := p.ref(id, pointer)
	if standin := jsonrpc.Get(raw, "default"); r != nil && standin != nil {
		r.Default = compact(standin)
	}
	return r
}

// looseRef refuses the text of a "$ref" that was meant to be a reference.
func (p *templateParser) looseRef(text string) {
	id := "step"
	if !strings.HasPrefix(text, "$ref:") {
		m := looseRef.FindStringSubmatch(text)
		if m == nil || !p.knows(m[1]) {
			return
		}
		id = m[1]
	}
	p.defect(`%s: no reference as it stands: want {"$ref": "%s#/json/pointer"}%s`, quoted(text), id, objectAsIs)
}

// looseText is the step that a plain text refers to in the notation of "$tpl"; "": to none. A
// shell's ${name#prefix} is a reference only if name is a step's.
func (p *templateParser) looseText(text string) (id string) {
	for _, m := range looseText.FindAllStringSubmatch(text, -1) {
		if p.knows(m[1]) {
			return m[1]
		}
	}
	return ""
}

// knows reports whether a reference can lead there.
func (p *templateParser) knows(id string) bool { return p.known != nil && id != "" && p.known(id) }

// quoted is a piece of what a client wrote, of a bounded length and in one line.
func quoted(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
