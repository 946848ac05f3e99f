package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// limits bounds a JSON text that was written by a stranger.
type limits struct {
	bytes   int // of all of it
	values  int // of all kinds
	names   int // bytes of the names on the way to each value, all values together
	refs    int // different references
	scanned int // bytes: each level is read once more by the level around it
}

// The compiler's time grows with the square of the places in a schema, each of
// which it knows by the names on the way there, and with the references times the
// places. At these bounds it takes about a fifth of a second; the largest of 486
// input schemas of real servers has 9 KB and takes 4 ms.
var schemaLimits = limits{bytes: 256 << 10, values: 5000, names: 500_000, refs: 300, scanned: 64 << 20}

// Reading arguments at these bounds takes about three milliseconds.
var argumentLimits = limits{bytes: 256 << 10, values: 10_000, names: 1 << 20, refs: 10_000, scanned: 1 << 20}

const (
	maxDepth  = 100 // of objects and arrays
	maxDigits = 400 // of a number, also of what its exponent stands for: a double has 309
)

// decode reads one JSON value for the validator: numbers as written, and nothing
// in it that two readers would take for different values, or that would keep the
// validator busy for long. took is what that was, in units of effort.
func decode(b []byte, l limits) (v any, took int, err error) {
	if len(b) > l.bytes {
		return nil, 0, fmt.Errorf("%d bytes: at most %d are read", len(b), l.bytes)
	}
	if !jsonrpc.Valid(b) {
		return nil, 1 + len(b)/64, errors.New("no valid JSON")
	}
	d := decoder{left: l, refs: make(map[string]bool)}
	v, err = d.value(bytes.Trim(b, " \t\r\n"), 1, 0)
	return v, 2*(l.values-d.left.values) + (l.scanned-d.left.scanned+len(b))/64, err
}

type decoder struct {
	left limits // what may still come
	refs map[string]bool
}

func (d *decoder) value(b []byte, depth, names int) (any, error) {
	d.left.values--
	d.left.names -= names
	if d.left.values < 0 || d.left.names < 0 {
		return nil, errors.New("too many values")
	}
	switch b[0] {
	case '{', '[':
		if d.left.scanned -= len(b); depth > maxDepth || d.left.scanned < 0 {
			return nil, errors.New("nested too deep")
		}
		if b[0] == '{' {
			return d.object(b, depth, names)
		}
		return d.array(b, depth, names)
	case '"':
		s, _ := jsonrpc.String(b)
		return s, nil
	case 't', 'f':
		return b[0] == 't', nil
	case 'n':
		return nil, nil
	}
	return number(string(b))
}

func (d *decoder) object(b []byte, depth, names int) (any, error) {
	obj := make(map[string]any)
	for m := range jsonrpc.Members(b) {
		name := string(m.Name)
		if _, twice := obj[name]; twice {
			return nil, fmt.Errorf("%s: is there twice", quoted(name))
		}
		v, err := d.value(m.Value, depth+1, names+len(name)+1)
		if err != nil {
			return nil, err
		}
		obj[name] = v
		if ref, ok := v.(string); ok && name == "$ref" {
			if d.refs[ref] = true; len(d.refs) > d.left.refs {
				return nil, errors.New("too many references")
			}
		}
	}
	return obj, nil
}

func (d *decoder) array(b []byte, depth, names int) (any, error) {
	arr := []any{}
	for e := range jsonrpc.Elements(b) {
		v, err := d.value(e, depth+1, names+2)
		if err != nil {
			return nil, err
		}
		arr = append(arr, v)
	}
	return arr, nil
}

// number bounds a number: the validator reckons with fractions of whole numbers,
// for which 1e1000000 is a megabyte.
func number(s string) (any, error) {
	if digits, exponent := parts(s); digits > maxDigits || exponent > maxDigits {
		return nil, errors.New("a number out of all proportion")
	}
	return json.Number(s), nil
}

// parts is how many digits a number is written with, and how many its exponent
// stands for.
func parts(s string) (digits, exponent int) {
	i := strings.IndexAny(s, "eE")
	if i < 0 {
		return len(s), 0
	}
	e, err := strconv.Atoi(s[i+1:])
	if err != nil {
		return i, maxDigits + 1
	}
	return i, max(e, -e)
}

// nameOf is what JSON Schema calls a value's type.
func nameOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}
