package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
)

// Value is what a reference refers to.
type Value struct {
	JSON []byte // nil if there is no value
	Text string // the text that JSON was parsed from; empty if none

	missing error // why it is null, if a short reference refers to nothing
}

// filler fills in templates.
type filler struct {
	input *schema.Schema                              // decides the types of inserted values; may be nil
	value func(r *Ref, path []string) (*Value, error) // path leads to the reference from the arguments
	limit int                                         // maximum bytes of the result
}

var errTooLarge = errors.New("the arguments are too large ([plan].max_result_bytes)")

// append appends a template with its references replaced.
func (f *filler) append(dst []byte, template any, path []string) (_ []byte, err error) {
	switch t := template.(type) {
	case *Ref:
		v, err := f.value(t, path)
		if err != nil {
			return nil, err
		}
		dst = append(dst, coerce(*v, f.input, path)...)
	case text:
		var s strings.Builder
		for _, part := range t {
			if r, ok := part.(*Ref); ok {
				v, err := f.value(r, path)
				if err != nil {
					return nil, err
				}
				part = asText(*v)
			}
			if s.WriteString(part.(string)); s.Len() > f.limit {
				return nil, errTooLarge
			}
		}
		dst = jsonrpc.AppendString(dst, s.String())
	case []any:
		dst = append(dst, '[')
		for i := range t {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = f.append(dst, t[i], append(path, strconv.Itoa(i))); err != nil {
				return nil, err
			}
		}
		dst = append(dst, ']')
	case object:
		dst = append(dst, '{')
		for i, m := range t {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendString(dst, m.name), ':')
			if dst, err = f.append(dst, m.value, append(path, m.name)); err != nil {
				return nil, err
			}
		}
		dst = append(dst, '}')
	case []byte:
		dst = append(dst, compact(t)...)
	}
	if len(dst) > f.limit {
		return nil, errTooLarge
	}
	return dst, nil
}

// asText returns a value as part of a text: a string without quotes, null as "", and text that
// was parsed as JSON unchanged.
func asText(v Value) string {
	if v.Text != "" || string(v.JSON) == "null" {
		return v.Text
	}
	if s, ok := jsonrpc.String(v.JSON); ok {
		return s
	}
	return string(compact(v.JSON))
}

// errMissing is the error of a reference to a missing value without a default.
var errMissing = errors.New("refers to nothing")

// resolve returns what a reference refers to, given the outcome of its step. It may take long in
// a large result.
func (r *Ref) resolve(outcome *Value, err error) (*Value, error) {
	switch {
	case outcome != nil:
		return r.in(*outcome)
	case r.Default != nil:
		return &Value{JSON: r.Default}, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %s %w: %w", r.at.pointer, quoted(r.String()), errMissing, err)
	}
	return &Value{JSON: []byte("null")}, nil
}

// in returns what a reference refers to in the value of its step. The text is kept only for the
// whole value.
func (r *Ref) in(v Value) (*Value, error) {
	v.JSON = bytes.TrimSpace(v.JSON)
	if r.Pointer == "" {
		return &v, nil
	}
	found, err := r.find(v.JSON, slices.Collect(jsonrpc.PointerTokens(r.Pointer)))
	if err != nil {
		return nil, err
	}
	out := &Value{JSON: found}
	if r.Null && string(found) == "null" {
		strict := *r
		strict.Null = false
		_, out.missing = strict.in(v)
	}
	return out, nil
}

// maxStar limits the bytes of the array that a "*" in a pointer yields.
const maxStar = 16 << 20

// find returns the value at a path. A "*" maps over the elements of an array and yields an array;
// in an object it is an ordinary name. Below a "*", a default, or null in the short form, replaces a
// missing value in that element only; without either, one missing value makes the whole reference missing.
func (r *Ref) find(value []byte, path []string) ([]byte, error) {
	for i, name := range path {
		if name == "*" && value[0] == '[' {
			all := []byte{'['}
			for element := range jsonrpc.Elements(value) {
				one, err := r.find(element, path[i+1:])
				if err != nil {
					return nil, err
				}
				if all = appendElement(all, one); len(all) > maxStar {
					return nil, errTooLarge
				}
			}
			return append(all, ']'), nil
		}
		next := jsonrpc.At(value, "/"+jsonrpc.PointerToken(name))
		if next == nil {
			return r.missing(shape(value))
		}
		value = next
	}
	return value, nil
}

// missing returns the replacement for a missing value, or an error with the reason.
func (r *Ref) missing(why string) ([]byte, error) {
	switch {
	case r.Default != nil:
		return r.Default, nil
	case r.Null:
		return []byte("null"), nil
	}
	return nil, fmt.Errorf("%s: %s %w: %s", r.at.pointer, quoted(r.String()), errMissing, why)
}

// shape describes a value in which something is missing.
func shape(value []byte) string {
	const most = 6
	names := slices.Collect(jsonrpc.Names(value))
	if len(names) == 0 {
		return "it is in " + shown(value)
	}
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return "the members there are " + strings.Join(names, ", ")
}

// coerce converts the value of a reference to the type that a place requires, as compact JSON. A
// value of an allowed type and null are unchanged. Otherwise
//
//   - a number or a boolean becomes a string with the same digits: 42 becomes "42";
//   - an object or array becomes a string: the text it was parsed from, or compact JSON;
//   - a string with a JSON number becomes that number, if an integer is required only an integer;
//   - "true" and "false" become booleans.
//
// The elements of an array are converted individually. Text that was parsed as JSON is inserted
// unchanged where only a string is allowed.
func coerce(v Value, want *schema.Schema, path []string) []byte {
	v.JSON = compact(v.JSON)
	wants := want.TypesAt(path)
	if wants == nil {
		return v.JSON
	}
	if v.Text != "" && slices.Contains(wants, "string") && (kindOf(v.JSON) == "string" || !fits(v.JSON, wants)) {
		return jsonrpc.AppendString(nil, v.Text)
	}
	of := want.TypesAt(append(slices.Clip(path), "*"))
	if kindOf(v.JSON) != "array" || !fits(v.JSON, wants) || of == nil {
		return coerceValue(v.JSON, wants)
	}
	all := []byte{'['}
	for e := range jsonrpc.Elements(v.JSON) {
		all = appendElement(all, coerceValue(e, of))
	}
	return append(all, ']')
}

func coerceValue(value []byte, wants []string) []byte {
	if kindOf(value) == "null" || fits(value, wants) {
		return value
	}
	text, isText := jsonrpc.String(value)
	if !isText && slices.Contains(wants, "string") {
		return jsonrpc.AppendString(nil, string(value))
	}
	inner := []byte(text)
	kind := kindOf(inner)
	if isText && (kind == "number" || kind == "boolean") && jsonrpc.Valid(inner) && text == strings.TrimSpace(text) && fits(inner, wants) {
		return inner
	}
	return value
}

// fits reports whether a value has one of the types.
func fits(value []byte, wants []string) bool {
	kind := kindOf(value)
	if slices.Contains(wants, kind) {
		return true
	}
	x, err := strconv.ParseFloat(string(value), 64)
	return kind == "number" && slices.Contains(wants, "integer") && err == nil && x == math.Trunc(x)
}

// compact returns a valid JSON value without white space.
func compact(raw []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}

// appendElement appends a value to an array without its closing bracket.
func appendElement(array, value []byte) []byte {
	if len(array) > 1 {
		array = append(array, ',')
	}
	return append(array, value...)
}

// array returns a JSON array of the values that are not nil.
func array(values [][]byte) []byte {
	values = slices.DeleteFunc(slices.Clone(values), func(v []byte) bool { return v == nil })
	return slices.Concat([]byte("["), bytes.Join(values, []byte(",")), []byte("]"))
}
