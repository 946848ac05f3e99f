package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Value is the result of a step.
type Value struct {
	JSON []byte
	Text string // the text that JSON was parsed from; empty if none
}

// Lookup returns the whole value of the step, params, item or index that a reference refers to,
// ignoring the pointer. It returns an error if there is none. A [Value] without JSON means a
// failed step with on_error "continue": references to it yield their Default or null.
type Lookup func(r *Ref) (Value, error)

// Resolver returns the value of a reference.
type Resolver func(r *Ref) (Value, error)

// Missing is the error of a reference to a missing value without a default.
type Missing struct {
	Ref *Ref
	Why string
}

func (m *Missing) Error() string {
	return fmt.Sprintf("%s: %s refers to nothing: %s", m.Ref.At, quoted(m.Ref.String()), m.Why)
}

// resolveRef returns the value of a reference. The text is kept only for the whole result of a
// step.
func resolveRef(r *Ref, look Lookup) (Value, error) {
	v, err := look(r)
	switch {
	case r.Default != nil && (err != nil || v.JSON == nil):
		return Value{JSON: r.Default}, nil
	case err != nil:
		return Value{}, &Missing{r, err.Error()}
	case v.JSON == nil:
		return Value{JSON: []byte("null")}, nil
	}
	v.JSON = trimmed(v.JSON)
	if r.Pointer == "" || len(v.JSON) == 0 {
		return v, nil
	}
	room := maxDefaultBytes
	found, err := r.resolvePath(v.JSON, strings.Split(r.Pointer[1:], "/"), 0, &room)
	return Value{JSON: found}, err
}

// maxDefaultBytes limits the total size of a reference's defaults: with "*" in the pointer, one
// default may be inserted for each element.
const maxDefaultBytes = 16 << 20

// resolvePath returns the value at tokens[i:], which are still escaped. A "*" maps over the
// elements of an array and yields an array; in an object it is an ordinary name. A value missing
// below a "*" is missing, or replaced, in that element only.
func (r *Ref) resolvePath(value []byte, tokens []string, i int, room *int) ([]byte, error) {
	for ; i < len(tokens); i++ {
		if tokens[i] == "*" && value[0] == '[' {
			break
		}
		next := jsonrpc.At(value, "/"+tokens[i])
		if len(next) == 0 {
			return r.missing(value, tokens[:i], room)
		}
		value = next
	}
	if i == len(tokens) {
		return value, nil
	}
	all := []byte{'['}
	for element := range jsonrpc.Elements(value) {
		v, err := r.resolvePath(element, tokens, i+1, room)
		if err != nil {
			return nil, err
		}
		if len(all) > 1 {
			all = append(all, ',')
		}
		all = append(all, v...)
	}
	return append(all, ']'), nil
}

// missing returns the replacement for a missing value, or an error.
func (r *Ref) missing(value []byte, path []string, room *int) ([]byte, error) {
	if r.Default != nil {
		if *room -= len(r.Default); *room < 0 {
			return nil, fmt.Errorf("%s: %s: too many defaults", r.At, quoted(r.String()))
		}
		return r.Default, nil
	}
	if r.Null {
		return []byte("null"), nil
	}
	place := "it"
	if len(path) > 0 {
		place = quoted("/" + strings.Join(path, "/"))
	}
	return nil, &Missing{r, place + " is " + describeShape(value)}
}

// describeShape describes the type and the members of a value.
func describeShape(value []byte) string {
	n := 0
	var names []string
	for range jsonrpc.Elements(value) {
		n++
	}
	for m := range jsonrpc.Members(value) {
		if n++; n <= shownNames {
			names = append(names, quoted(string(m.Name)))
		}
	}
	switch {
	case value[0] == '[':
		return fmt.Sprintf("an array of %d", n)
	case value[0] != '{':
		return kindOf(value)
	case n == 0:
		return "an empty object"
	case n > shownNames:
		names = append(names, "…")
	}
	return "an object of " + strings.Join(names, ", ")
}

// trimmed returns a JSON value without surrounding white space.
func trimmed(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }

// Resolve returns the template with its references replaced, as compact JSON that must not be
// modified. Inserted values are data and are not scanned for references. If the schema, which may
// be nil, requires another type than that of an inserted value, the value is converted if
// possible (see coerce).
//
// Errors name the place in the plan; a reference to a missing value is a [*Missing]. A result of
// more than limit bytes is an error; zero means no limit.
func (t *Template) Resolve(resolve Resolver, want *schema.Schema, limit int) ([]byte, error) {
	out := slices.Clone(t.text[0])
	for i, h := range t.holes {
		value, err := h.value(resolve, want)
		if err != nil {
			return nil, err
		}
		out = append(append(out, value...), t.text[i+1]...)
		if limit > 0 && len(out) > limit { // stop early
			break
		}
	}
	switch {
	case limit > 0 && len(out) > limit:
		return nil, fmt.Errorf("%s: more than %d bytes", t.at, limit)
	case !jsonrpc.Valid(out):
		return nil, fmt.Errorf("%s: nested too deep, or it contains a result that is not valid JSON", t.at)
	}
	return out, nil
}

// value returns the JSON value for a hole.
func (h *hole) value(resolve Resolver, want *schema.Schema) ([]byte, error) {
	if h.ref != nil {
		v, err := resolve(h.ref)
		if err != nil {
			return nil, err
		}
		return coerce(v, want, h.path), nil
	}
	var text []byte
	for _, p := range h.tpl {
		if p.ref == nil {
			text = append(text, p.text...)
			continue
		}
		v, err := resolve(p.ref)
		if err != nil {
			return nil, err
		}
		text = append(text, asText(v)...)
	}
	return jsonrpc.AppendString(nil, string(text)), nil
}

// CheckConstants returns the violations of a schema that hold for any value of the references:
// wrong constants, missing and unknown members. Pointers refer to the plan.
func (t *Template) CheckConstants(s *schema.Schema) Defects {
	outline := slices.Clone(t.text[0])
	var open [][]string
	var wrong Defects
	for i, h := range t.holes {
		outline = append(append(outline, "null"...), t.text[i+1]...)
		open = append(open, h.path)
		if wants := s.TypesAt(h.path); h.ref == nil && len(wants) > 0 && !slices.Contains(wants, "string") {
			wrong = append(wrong, Defect{Pointer: t.at + pointerTo(h.path), Message: fmt.Sprintf(
				`want %s, and "$tpl" is always a string; {"$ref": "step#/json/pointer"} is what it refers to`, strings.Join(wants, " or "))})
		}
	}
	for _, f := range s.Faults(outline, open) {
		wrong = append(wrong, Defect{Pointer: t.at + pointerTo(f.Path), Message: f.Message})
	}
	return wrong
}

// coerce converts the value of a reference to the type that a place requires, as compact JSON. A
// value of an allowed type and null are unchanged. Otherwise
//
//   - a number or a boolean becomes a string with the same digits: 42 becomes "42";
//   - an object or array becomes a string: the text it was parsed from, or compact JSON;
//   - a string with a JSON number becomes that number, if an integer is required only an integer;
//
// "true" and "false" become booleans.
//
// The elements of an array are converted individually. Text that was parsed as JSON is inserted
// unchanged where only a string is allowed.
func coerce(v Value, want *schema.Schema, path []string) []byte {
	value := compact(v.JSON)
	wants := want.TypesAt(path)
	if wants == nil || len(value) == 0 {
		return value
	}
	if v.Text != "" && slices.Contains(wants, "string") && (value[0] == '"' || !fits(value, wants)) {
		return jsonrpc.AppendString(nil, v.Text)
	}
	of := want.TypesAt(append(slices.Clip(path), schema.AnyElement))
	if value[0] != '[' || !fits(value, wants) || of == nil {
		return coerceValue(value, wants)
	}
	var all [][]byte
	for e := range jsonrpc.Elements(value) {
		all = append(all, coerceValue(e, of))
	}
	return array(all)
}

func coerceValue(value []byte, wants []string) []byte {
	if value[0] == 'n' || fits(value, wants) {
		return value
	}
	text, isText := jsonrpc.String(value)
	switch {
	case !isText && slices.Contains(wants, "string"):
		return jsonrpc.AppendString(nil, string(value))
	case isText && isScalar(text) && fits([]byte(text), wants):
		return []byte(text)
	}
	return value
}

// isScalar reports whether a text is exactly a JSON number or boolean, without white space.
func isScalar(text string) bool {
	return text == "true" || text == "false" || strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
}

// fits reports whether a value has one of the types.
func fits(value []byte, wants []string) bool {
	kind := strings.TrimPrefix(strings.TrimPrefix(kindOf(value), "a "), "an ")
	if kind != "number" || slices.Contains(wants, "number") {
		return slices.Contains(wants, kind)
	}
	x, err := strconv.ParseFloat(string(value), 64)
	return slices.Contains(wants, "integer") && err == nil && x == math.Trunc(x)
}

// asText returns a value as part of a text: a string without quotes, null as "", and text that
// was parsed as JSON unchanged.
func asText(v Value) []byte {
	if v.Text != "" {
		return []byte(v.Text)
	}
	if text, ok := jsonrpc.String(v.JSON); ok {
		return []byte(text)
	}
	if string(v.JSON) == "null" {
		return nil
	}
	return compact(v.JSON)
}
