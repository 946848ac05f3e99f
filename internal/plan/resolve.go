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

// Value is what a step gave.
type Value struct {
	JSON []byte
	Text string // that JSON was read off; "": it was none
}

// Lookup is the value of the step that a reference is to, or of params, item or
// index: the whole, its pointer is not its business. An error says that there is
// none. A [Value] without JSON stands for one that is given up: what refers to it
// reads its Default or null, whatever the pointer.
type Lookup func(r *Ref) (Value, error)

// Resolver is what a reference stands for.
type Resolver func(r *Ref) (Value, error)

// Missing says that a reference leads to nothing and nothing stands in for it.
type Missing struct {
	Ref *Ref
	Why string
}

func (m *Missing) Error() string {
	return fmt.Sprintf("%s: %s leads nowhere: %s", m.Ref.At, quoted(m.Ref.String()), m.Why)
}

// resolveRef is what a reference stands for. Text is kept where it is the whole of
// what a step gave.
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
	room := maxStandins
	found, err := r.follow(v.JSON, strings.Split(r.Pointer[1:], "/"), 0, &room)
	return Value{JSON: found}, err
}

// maxStandins bounds what defaults may come to: with "*" in the pointer one stands in for
// each element that lacks what is asked for.
const maxStandins = 16 << 20

// follow is the value behind tokens[i:], which are still escaped. A "*" stands for
// each element of an array, and the values behind it become one; where the value is
// an object it is a name as any other. What is missing behind a "*" is missing in
// that element alone, and what stands in for it stands there.
func (r *Ref) follow(value []byte, tokens []string, i int, room *int) ([]byte, error) {
	for ; i < len(tokens); i++ {
		if tokens[i] == "*" && value[0] == '[' {
			break
		}
		next := jsonrpc.At(value, "/"+tokens[i])
		if len(next) == 0 {
			return r.standin(value, tokens[:i], room)
		}
		value = next
	}
	if i == len(tokens) {
		return value, nil
	}
	all := []byte{'['}
	for element := range jsonrpc.Elements(value) {
		v, err := r.follow(element, tokens, i+1, room)
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

// standin is what stands for what a value lacks.
func (r *Ref) standin(value []byte, path []string, room *int) ([]byte, error) {
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
	return nil, &Missing{r, place + " is " + shapeOf(value)}
}

// shapeOf says what there is to be found in a value.
func shapeOf(value []byte) string {
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

// trimmed is a JSON value without white space around it.
func trimmed(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }

// Resolve puts in what the references stand for, as resolve says, and gives compact JSON
// that is not to be changed. What is put in is data: nothing in it is a reference. Where
// the schema, which may be nil, wants a value of another type for a reference to go in,
// and the same can be said in that type, it is (see coerce).
//
// An error names the place; it is a [*Missing] where a reference leads to nothing.
// More than most bytes are an error; 0: any number.
func (t *Template) Resolve(resolve Resolver, want *schema.Schema, most int) ([]byte, error) {
	out := slices.Clone(t.text[0])
	for i, h := range t.holes {
		value, err := h.value(resolve, want)
		if err != nil {
			return nil, err
		}
		out = append(append(out, value...), t.text[i+1]...)
		if most > 0 && len(out) > most { // before they become more
			break
		}
	}
	switch {
	case most > 0 && len(out) > most:
		return nil, fmt.Errorf("%s: more than %d bytes", t.at, most)
	case !jsonrpc.Valid(out):
		return nil, fmt.Errorf("%s: nested too deep, or a result in it is no valid JSON", t.at)
	}
	return out, nil
}

// value is what goes into a hole, as JSON.
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

// CheckConstants is what a schema finds wrong with the value whatever its references
// stand for: constants that do not fit, members that are missing or not known. What
// cannot be told before is not found wrong. The pointers lead into the plan.
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

// coerce is what goes in for a reference, as compact JSON. A value of a type that
// the place may have stays as it is, and so does null; elsewhere
//
//   - a number or a boolean becomes text, with its digits: 42 is "42";
//   - an object or array becomes text: the one it was read off, else compact JSON;
//   - a text that is a JSON number becomes that number, if it has to be whole only
//     one that is; "true" and "false" become booleans.
//
// The elements of an array are places of their own. A text that was read as JSON, for
// references to lead into it, goes in as it was where only a text may stand.
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

// isScalar says whether a text is a JSON number or boolean and nothing else, not even
// white space.
func isScalar(text string) bool {
	return text == "true" || text == "false" || strings.Trim(text, "0123456789+-.eE") == "" && json.Valid([]byte(text))
}

// fits says whether a value has one of the types.
func fits(value []byte, wants []string) bool {
	kind := strings.TrimPrefix(strings.TrimPrefix(kindOf(value), "a "), "an ")
	if kind != "number" || slices.Contains(wants, "number") {
		return slices.Contains(wants, kind)
	}
	x, err := strconv.ParseFloat(string(value), 64)
	return slices.Contains(wants, "integer") && err == nil && x == math.Trunc(x)
}

// asText is a value within a text: a string without its quotes, null as nothing, and
// a text that was read as JSON as it was.
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
