package plan

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// A template is a JSON value with references: an object, an array ([]any), a *Ref, a text, or a
// value without references as it is written ([]byte). Only the plan is searched for references,
// never a result.
//
// A string that is a whole reference, "$ref:step", "$ref:step.field" or "$result_step", is
// replaced by the referenced value, and so is {"$ref": "step#/pointer"}, optionally with a
// "default". {"$tpl": "text ${step#/pointer}"} is a string with references, and {"$lit": value}
// is the value unchanged. "$$ref:" escapes "$ref:", and "$${" escapes "${" in a $tpl.
//
// What would be sent as text by mistake is a defect: a string that contains "$ref:", and a step's
// id in another notation, such as "${step.field}". Any other object with a "$ref" is unchanged: it
// may be part of a JSON Schema.

// Ref is a reference to the result of a step, or to params, item or index.
type Ref struct {
	Step    string
	Pointer string // JSON pointer into its value; empty for the whole value
	Null    bool   // a missing value is null (short form); otherwise it is an error unless Default is set
	Default []byte // replaces a missing value; may be nil
	at      node
	inText  bool // it is in a $tpl
}

func (r *Ref) String() string { return r.Step + "#" + r.Pointer }

// text is a string with references: its parts are strings and references.
type text []any

// object is a JSON object. Its members keep their order, which matters to some servers.
type object []member

type member struct {
	name  string
	value any
}

// render returns a template without references as compact JSON.
func render(template any) []byte {
	out, _ := (&filler{limit: math.MaxInt}).append(nil, template, nil) // fails only if the value of a reference does
	return out
}

var (
	idForm    = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	shortForm = regexp.MustCompile(`^\$(?:ref:|result_)([A-Za-z0-9_-]+)((?:\.[^.\s\[\]$#]+)*)$`)
	escaped   = regexp.MustCompile(`^\$\$+(?:ref:|result_)`)
	// The first match of idAlike is the id that a mistaken reference means.
	idAlike = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	// textAlike matches references that a string is likely to mean: ${ID#, ${ID., ${ID[, ${ID}, {{ID and $ID.field.
	textAlike = regexp.MustCompile(`(?:\$\{|\{\{ *)([A-Za-z0-9_-]+) *[#.[}]|\$([A-Za-z0-9_-]+)\.[A-Za-z_]`)
	braces    = regexp.MustCompile(`\$+\{`)
)

const wantReference = `want a reference: "$ref:step", "$ref:step.field" or {"$ref": "step#/json/pointer"}`

// reference parses a value that must be a single reference, and returns nil if it is not.
func (v node) reference() *Ref {
	known := len(v.p.defects)
	r, ok := v.template().(*Ref)
	if !ok && len(v.p.defects) == known {
		v.errorf("%s, have %s", wantReference, shown(v.raw))
	}
	return r
}

// maxNesting is the nesting depth of a plan, the same as for keys of the store.
const maxNesting = 64

// template parses a value with references.
func (v node) template() any {
	if v.depth > maxNesting {
		v.errorf("nested deeper than %d values", maxNesting)
		return nil
	}
	switch kindOf(v.raw) {
	case "string":
		return v.parseString()
	case "array":
		all := []any{}
		for element := range jsonrpc.Elements(v.raw) {
			if v.p.tooMuch() {
				break
			}
			all = append(all, v.below(strconv.Itoa(len(all)), element).template())
		}
		return all
	case "object":
		return v.parseObject()
	}
	return v.raw
}

func (v node) parseString() any {
	s, _ := jsonrpc.String(v.raw)
	if escaped.MatchString(s) {
		return jsonrpc.AppendString(nil, s[1:])
	}
	if m := shortForm.FindStringSubmatch(s); m != nil {
		var pointer strings.Builder
		for field := range strings.SplitSeq(m[2], ".") {
			if field != "" {
				pointer.WriteString("/" + jsonrpc.PointerToken(field))
			}
		}
		v.p.refs++
		return &Ref{Step: m[1], Pointer: pointer.String(), Null: true, at: v}
	}
	isAlike := func(m []string) bool { return v.isTarget(m[1] + m[2]) }
	if strings.Contains(s, "$ref:") || slices.ContainsFunc(textAlike.FindAllStringSubmatch(s, -1), isAlike) {
		v.notWhole(s)
	}
	return v.raw
}

// notWhole reports a reference that is only a part of a string.
func (v node) notWhole(s string) {
	v.errorf(`%s: a reference has to be the whole text: "$ref:step.field" or {"$ref": "step#/field"}; within text write {"$tpl": "… ${step#/field} …"}; {"$lit": "…"} leaves a text as it is`, quoted(s))
}

func (v node) parseObject() any {
	index := jsonrpc.NewIndex(v.raw)
	for _, form := range []string{"$lit", "$tpl"} {
		inner := index.Get(form)
		switch {
		case inner == nil:
		case index.Len() > 1:
			v.errorf("%q has to be the only member of its object", form)
			return nil
		case form == "$lit":
			return inner
		default:
			return v.below("$tpl", inner).parseText()
		}
	}
	if target, ok := jsonrpc.String(index.Get("$ref")); ok {
		r, substitute := v.target(target), index.Get("default")
		if r != nil && (index.Len() == 1 || index.Len() == 2 && substitute != nil) {
			r.Default = substitute
			return r
		}
		if short, ok := strings.CutPrefix(target, "$ref:"); ok || v.isTarget(idAlike.FindString(target)) {
			short = cmp.Or(short, target)
			want := Ref{Step: idAlike.FindString(short)}
			_, path, _ := strings.Cut(short, want.Step)
			for _, name := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune("#/.[]", r) }) {
				want.Pointer += "/" + name
			}
			if r != nil { // only what is beside it is wrong
				want = *r
			}
			v.errorf(`%s: not a valid reference: want {"$ref": %s}, with nothing beside it but a "default"; {"$lit": {…}} leaves an object as it is`, quoted(target), quoted(want.String()))
			return &Ref{Step: want.Step, Null: true, Default: []byte("null"), at: v} // reports no wrong type as well
		}
	}
	all, known := object{}, make(map[string]bool)
	for m := range index.All() {
		name := string(m.Name)
		if known[name] {
			v.errorf("%s: duplicate member", quoted(name))
		}
		known[name] = true
		all = append(all, member{name, v.below(name, m.Value).template()})
	}
	return all
}

// target parses "step#/json/pointer"; it returns nil if the text does not have this form.
func (v node) target(target string) *Ref {
	id, pointer, ok := strings.Cut(target, "#")
	if !ok || !idForm.MatchString(id) || !jsonrpc.ValidPointer(pointer) {
		return nil
	}
	v.p.refs++
	return &Ref{Step: id, Pointer: pointer, at: v}
}

// tooMuch reports whether to stop because the plan has too many references or defects.
func (p *parser) tooMuch() bool { return p.refs > maxRefs || len(p.defects) > maxDefects }

// parseText parses the text of a $tpl. In front of a brace, two dollars are an escaped one, and a
// remaining one begins a reference. So "$${" is "${", and "$$${a#/price}" is a dollar and a
// price.
func (v node) parseText() any {
	rest, ok := jsonrpc.String(v.raw)
	if !ok {
		v.errorf("want a string, have %s", shown(v.raw))
		return nil
	}
	if strings.Contains(rest, "$ref:") {
		v.notWhole(rest)
	}
	var parts text
	plain := ""
	for {
		at := braces.FindStringIndex(rest)
		if at == nil || v.p.tooMuch() {
			break
		}
		dollars := at[1] - at[0] - 1
		plain += rest[:at[0]] + strings.Repeat("$", dollars/2)
		rest = rest[at[1]:]
		if dollars%2 == 0 {
			plain += "{"
			continue
		}
		inner, behind, closed := strings.Cut(rest, "}")
		r := v.target(inner)
		if r == nil || !closed {
			v.errorf(`%s: want ${step#/json/pointer}, or ${step#} for the whole value; "$${" puts "${" into the text`, quoted("${"+inner))
			return nil
		}
		r.inText = true
		parts = append(parts, plain, r)
		plain, rest = "", behind
	}
	if parts == nil {
		return jsonrpc.AppendString(nil, plain+rest)
	}
	return append(parts, plain+rest)
}

// isTarget reports whether a reference of the step may refer to an id.
func (v node) isTarget(id string) bool {
	return v.p.byID[id] != nil || id == params && v.p.options.Params != nil || v.step.written["for_each"] != nil && (id == item || id == index)
}

// refsIn returns the references in a template, in their order.
func refsIn(template any) (all []*Ref) {
	switch t := template.(type) {
	case *Ref:
		return []*Ref{t}
	case text:
		return refsIn([]any(t))
	case []any:
		for _, element := range t {
			all = append(all, refsIn(element)...)
		}
	case object:
		for _, m := range t {
			all = append(all, refsIn(m.value)...)
		}
	}
	return all
}
