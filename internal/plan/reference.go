package plan

import (
	"fmt"
	"regexp"
	"strings"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// Ref is a reference to the result of a step, or to params, item or index.
type Ref struct {
	Step    string // id of the step
	Pointer string // JSON pointer into its value; empty for the whole value
	Null    bool   // a missing value is null (short form); otherwise it is an error unless Default is set
	Default []byte // replaces a missing value; may be nil
	At      string // JSON pointer to the reference in the plan
}

func (r *Ref) String() string { return r.Step + "#" + r.Pointer }

// maxTokens is the maximum depth of a pointer: each token scans the value again.
const maxTokens = 64

// There are two notations: the short forms "$ref:step.field" and "$result_step", and {"$ref":
// "step#/json/pointer"} with "${step#/json/pointer}" in text.
var (
	guideForm = regexp.MustCompile(`^\$(?:ref:|result_)([A-Za-z0-9_-]+)((?:\.[^.\s\[\]$#]+)*)$`)
	// guideMark matches the start of a short reference anywhere.
	guideMark = regexp.MustCompile(`\$(?:ref:|result_[A-Za-z0-9_-])`)
	// looseRef and looseText match similar notations, and ${…} outside of a $tpl.
	looseRef  = regexp.MustCompile(`^(?:\$\{|[#/$.]*)(?:steps[./])?([A-Za-z0-9_-]+)(?:[#./\[}](?s:.*))?$`)
	looseText = regexp.MustCompile(`\$\{([A-Za-z0-9_-]+)#`)
)

const (
	wantRef    = `want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}`
	textAsIs   = `; {"$lit": "…"} leaves a text as it is`
	objectAsIs = `; {"$lit": {…}} leaves an object as it is`
)

// parseRef parses a value that must be a single reference, and returns nil if it is not. known
// reports whether a step id exists; nil means that this is not known.
func parseRef(v node, known func(id string) bool) *Ref {
	t := parseTemplate(v, known)
	switch {
	case t == nil:
		return nil
	case len(t.holes) == 1 && t.holes[0].ref != nil && len(t.text[0])+len(t.text[1]) == 0:
		return t.holes[0].ref
	}
	v.errorf("%s, have %s", wantRef, display(v.raw))
	return nil
}

// maxMarkLen is the maximum length of a match of guideMark.
const maxMarkLen = len("$result_") + 1

// findMark returns the start of the first short reference in a text, or -1.
func findMark(text string) int {
	if !strings.Contains(text, "$ref:") && !strings.Contains(text, "$result_") {
		return -1
	}
	at := guideMark.FindStringIndex(text)
	if at == nil {
		return -1
	}
	return at[0]
}

// guideRef parses a text that begins with a short reference: "$ref:step.field.nested".
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

// notWhole reports a short reference that is not the whole text, or that has a path in another
// notation.
func (p *templateParser) notWhole(text string) {
	p.defect(`%s: a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}%s`, quoted(text), textAsIs)
}

// ref returns a reference to a step.
func (p *templateParser) ref(id, pointer string) *Ref {
	if strings.Count(pointer, "/") > maxTokens {
		p.defect("%s: leads into more than %d values", quoted(id+"#"+pointer), maxTokens)
		return nil
	}
	return &Ref{Step: id, Pointer: pointer, At: p.pointer()}
}

// cutTarget splits "step#/json/pointer", and returns false if text does not have this form.
func cutTarget(text string) (id, pointer string, ok bool) {
	id, pointer, ok = strings.Cut(text, "#")
	return id, pointer, ok && idForm.MatchString(id) && jsonrpc.ValidPointer(pointer)
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// refObject parses an object with a "$ref", and returns nil if it is not a reference. Only the
// exact form is one, because arguments may contain a JSON Schema. A reference to a step of this
// plan in any other form is a defect: it would be sent to the tool unresolved.
func (p *templateParser) refObject(raw []byte) *Ref {
	text, ok := jsonrpc.String(jsonrpc.Get(raw, "$ref"))
	if !ok {
		return nil
	}
	id, pointer, ok := cutTarget(text)
	for m := range jsonrpc.Members(raw) {
		if name := string(m.Name); name != "$ref" && name != "default" {
			if ok && p.knows(id) {
				p.defect(`%s: not a reference, because of the member %s: only "default" may be added%s`, quoted(text), quoted(name), objectAsIs)
			}
			return nil
		}
	}
	if !ok {
		p.looseRef(text)
		return nil
	}
	r := p.ref(id, pointer)
	if value := jsonrpc.Get(raw, "default"); r != nil && value != nil {
		r.Default = compact(value)
	}
	return r
}

// looseRef reports the text of a "$ref" that was meant to be a reference.
func (p *templateParser) looseRef(text string) {
	id := "step"
	if !strings.HasPrefix(text, "$ref:") {
		m := looseRef.FindStringSubmatch(text)
		if m == nil || !p.knows(m[1]) {
			return
		}
		id = m[1]
	}
	p.defect(`%s: not a valid reference: want {"$ref": "%s#/json/pointer"}%s`, quoted(text), id, objectAsIs)
}

// looseText returns the step that a plain text refers to in the notation of "$tpl", or "". A
// shell's ${name#prefix} counts only if name is a step.
func (p *templateParser) looseText(text string) (id string) {
	for _, m := range looseText.FindAllStringSubmatch(text, -1) {
		if p.knows(m[1]) {
			return m[1]
		}
	}
	return ""
}

// knows reports whether id is known to be a valid target.
func (p *templateParser) knows(id string) bool { return p.known != nil && id != "" && p.known(id) }

const maxQuoted = 61 // characters of a quoted text, including "…"

// quoted quotes the beginning of a client's text.
func quoted(text string) string {
	return fmt.Sprintf("%q", excerpt.Shorten(text, maxQuoted))
}
