package plan

import (
	"fmt"
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

// parseRef reads a value that has to be a reference, in any of its forms but within
// text. at is the JSON pointer of the value in the plan; known says what references
// can lead to (nil: nothing is known).
func parseRef(raw []byte, at string, known func(id string) bool) (*Ref, Defects) {
	if !jsonrpc.Valid(raw) {
		return nil, Defects{{Pointer: at, Message: "no valid JSON"}}
	}
	raw = trimmed(raw)
	switch raw[0] {
	case '"':
		text, _ := jsonrpc.String(raw)
		if markAt(text) == 0 {
			return nil, Defects{{Pointer: at, Message: fmt.Sprintf("%s: %s", quoted(text), wantRef)}}
		}
		r, wrong := guideRef(text, at)
		if wrong != "" {
			return nil, Defects{{Pointer: at, Message: wrong}}
		}
		return r, nil
	case '{':
		return parseRefObject(raw, at, known)
	}
	return nil, Defects{{Pointer: at, Message: fmt.Sprintf("%s, have %s", wantRef, kindOf(raw))}}
}

const wantRef = `want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}`

func parseRefObject(raw []byte, at string, known func(id string) bool) (*Ref, Defects) {
	p := templateParser{known: known, only: true}
	p.members(raw, at)
	r := p.refObject(raw, at, 1)
	switch {
	case len(p.defects) > 0:
		return nil, p.defects
	case r == nil:
		return nil, Defects{{Pointer: at, Message: wantRef + `, with nothing but a "default" beside it`}}
	}
	return r, nil
}

// refObject is the reference that an object is; nil if it is none. Only the one form
// counts, as the arguments of a tool may well be a JSON Schema.
func (p *templateParser) refObject(raw []byte, at string, depth int) *Ref {
	var target, standin []byte
	var beside []string
	for m := range jsonrpc.Members(raw) {
		switch name := string(m.Name); name {
		case "$ref":
			target = m.Value
		case "default":
			standin = m.Value
		default:
			beside = append(beside, name)
		}
	}
	text, ok := jsonrpc.String(target)
	switch {
	case !ok:
		return nil
	case len(beside) > 0:
		p.refBeside(text, beside[0], at)
		return nil
	}
	id, pointer, ok := cutTarget(text)
	if !ok {
		if meant := p.slip(text); meant != "" {
			p.defect(at, fmt.Sprintf(`%s: no reference as it stands: want {"$ref": %s}%s`, quoted(text), quoted(meant), p.orObject()))
		} else if markAt(text) > 0 {
			p.defect(at, fmt.Sprintf(`%s: write it as the value itself, or {"$ref": "step#/json/pointer"}`, quoted(text)))
		}
		return nil
	}
	if strings.Count(pointer, "/") > maxTokens {
		p.defect(at, fmt.Sprintf("%s: leads into more than %d values", quoted(text), maxTokens))
	}
	r := &Ref{Step: id, Pointer: pointer, At: at}
	if standin != nil {
		r.Default = p.literal(standin, at+"/default", depth+1)
	}
	return r
}

// cutTarget is the step and the pointer of "step#/json/pointer"; false if a text is
// nothing of the kind.
func cutTarget(text string) (id, pointer string, ok bool) {
	id, pointer, ok = strings.Cut(text, "#")
	return id, pointer, ok && id != "" && idLen(id) == len(id) && jsonrpc.ValidPointer(pointer)
}

// The marks that references of the guide begin with.
const (
	markRef    = "$ref:"
	markResult = "$result_"
)

// markAt is the length of the mark of a reference that a text begins with; 0: it
// begins with none. What no id follows is no mark if it is "$result_", which may
// stand in any script or prose; "$ref:" is one anyhow.
func markAt(text string) int {
	if strings.HasPrefix(text, markRef) {
		return len(markRef)
	}
	if strings.HasPrefix(text, markResult) && idLen(text[len(markResult):]) > 0 {
		return len(markResult)
	}
	return 0
}

// findMark is where in a text the first mark begins; -1: nowhere.
func findMark(text string) int {
	for i := range len(text) {
		if text[i] == '$' && markAt(text[i:]) > 0 {
			return i
		}
	}
	return -1
}

// idLen is how much of the beginning of a text may be the id of a step.
func idLen(text string) int {
	for i := range len(text) {
		c := text[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return i
		}
	}
	return len(text)
}

// guideRef reads a text that begins with a mark: "$ref:step.field.nested". wrong says
// what is wrong with it. A field that a slip could have made, such as "items[0]" or
// the prose behind a name, is refused: it would lead nowhere, and that reads as null.
func guideRef(text, at string) (r *Ref, wrong string) {
	rest := text[markAt(text):]
	id := rest[:idLen(rest)]
	rest = rest[len(id):]
	switch {
	case id == "":
		return nil, fmt.Sprintf(`%s: want the id of a step behind "$ref:": letters, digits, "_" and "-"%s`, quoted(text), orLiteral)
	case strings.HasPrefix(text, markRef) && strings.IndexAny(rest, "#/") == 0 && !strings.ContainsAny(rest, " \t\r\n$"):
		return nil, fmt.Sprintf(`%s: want {"$ref": %s}%s`, quoted(text), quoted(meantTarget(id, rest)), orLiteral)
	case findMark(rest) >= 0 || rest != "" && rest[0] != '.' && rest[0] != '[':
		return nil, withinText(text)
	case rest != "" && rest[0] == '[':
		return nil, fmt.Sprintf(`%s: want "$ref:%s.field" or, of an array, "$ref:%[2]s.0"%s`, quoted(text), id, orLiteral)
	}
	var pointer strings.Builder
	for rest != "" {
		field, next, more := strings.Cut(rest[1:], ".")
		if wrong := wrongField(field); wrong != "" {
			return nil, fmt.Sprintf(`%s: field %s %s`, quoted(text), quoted(field), wrong)
		}
		pointer.WriteString("/" + jsonrpc.PointerToken(field))
		if rest = ""; more {
			rest = "." + next
		}
	}
	if strings.Count(pointer.String(), "/") > maxTokens {
		return nil, fmt.Sprintf("%s: leads into more than %d values", quoted(text), maxTokens)
	}
	return &Ref{Step: id, Pointer: pointer.String(), Null: true, At: at}, ""
}

func wrongField(field string) string {
	switch {
	case field == "":
		return `is empty: want "$ref:step.field.nested"`
	case strings.HasSuffix(field, "]"):
		return `holds brackets: an element of an array is ".0"; a name like this needs {"$ref": "step#/json/pointer"}`
	case strings.ContainsAny(field, " \t\r\n"):
		return `holds white space: a name like this needs {"$ref": "step#/json/pointer"}, and text {"$tpl": "text ${step#/json/pointer}"}`
	}
	return ""
}

const orLiteral = `; {"$lit": "…"} leaves a text as it is`

// withinText says what to do about a reference that is not the whole of a text.
func withinText(text string) string {
	form := "${step#/field}"
	if i := findMark(text); i >= 0 {
		rest := text[i+markAt(text[i:]):]
		if id := rest[:idLen(rest)]; id != "" {
			form = "${" + id + "#" + fieldsIn(rest[len(id):]) + "}"
		}
	}
	return fmt.Sprintf(`%s: a reference has to be the whole text; within text write {"$tpl": "… %s …"}%s`, quoted(text), form, orLiteral)
}

// fieldsIn is the pointer of the fields that a text begins with, as far as they are
// plain names: a full stop may end a sentence.
func fieldsIn(text string) (pointer string) {
	for strings.HasPrefix(text, ".") {
		n := idLen(text[1:])
		if n == 0 {
			break
		}
		pointer += "/" + text[1:1+n]
		text = text[1+n:]
	}
	return pointer
}

// quoted is a piece of what a client wrote, of a bounded length and in one line.
func quoted(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return fmt.Sprintf("%q", text)
}
