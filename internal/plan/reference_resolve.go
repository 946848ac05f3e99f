package plan

import (
	"bytes"
	"fmt"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Lookup is the value of the step that a reference is to, or of params, item or
// index: the whole, its pointer is not its business. An error says that there is
// none. A [Value] without JSON stands for one that is given up: what refers to it
// reads its Default or null, whatever the pointer.
type Lookup func(r *Ref) (Value, error)

// Value is what a step gave.
type Value struct {
	JSON []byte
	Text string // that JSON was read off; "": it was none
}

// Missing says that a reference leads to nothing and nothing stands in for it.
type Missing struct {
	Ref *Ref
	Why string
	Err error // of the lookup; nil: the step has a value
}

func (m *Missing) Error() string {
	return fmt.Sprintf("%s: %s leads nowhere: %s", m.Ref.At, quoted(m.Ref.String()), m.Why)
}

func (m *Missing) Unwrap() error { return m.Err }

// standinBytes bounds what defaults may come to where there are many: one stands in
// for each element that lacks what a pointer with "*" asks it for. All else that such
// a pointer gives is part of what there is already.
const standinBytes = 64 << 20

// resolveRef is what a reference stands for. Text is kept where it is the whole of
// what a step gave.
func resolveRef(r *Ref, look Lookup) (Value, error) {
	v, err := look(r)
	switch {
	case err != nil && r.Default != nil:
		return Value{JSON: r.Default}, nil
	case err != nil:
		return Value{}, &Missing{Ref: r, Why: err.Error(), Err: err}
	case v.JSON == nil && r.Default != nil:
		return Value{JSON: r.Default}, nil
	case v.JSON == nil:
		return Value{JSON: []byte("null")}, nil
	}
	v.JSON = trimmed(v.JSON)
	if r.Pointer != "" && len(v.JSON) > 0 {
		f := follower{ref: r, left: standinBytes}
		found, err := f.follow(v.JSON, strings.Split(r.Pointer[1:], "/"), 0)
		if err != nil {
			return Value{}, err
		}
		v = Value{JSON: found}
	}
	if !jsonrpc.Valid(v.JSON) {
		return Value{}, fmt.Errorf("%s: %s: what it gave is no valid JSON", r.At, quoted(r.String()))
	}
	return v, nil
}

// follower goes where a pointer leads.
type follower struct {
	ref  *Ref
	left int // bytes that defaults may still come to
}

// follow is the value behind tokens[i:], which are still escaped. A "*" stands for
// each element of an array, and the values behind it become one; where the value is
// an object it is a name as any other. What is missing behind a "*" is missing in
// that element alone, and what stands in for it stands there.
func (f *follower) follow(value []byte, tokens []string, i int) ([]byte, error) {
	for ; i < len(tokens); i++ {
		if tokens[i] == "*" && value[0] == '[' {
			return f.each(value, tokens, i+1)
		}
		next := jsonrpc.At(value, "/"+tokens[i])
		if len(next) == 0 {
			return f.standin(value, tokens, i)
		}
		value = next
	}
	return value, nil
}

func (f *follower) each(array []byte, tokens []string, i int) ([]byte, error) {
	all := []byte{'['}
	for element := range jsonrpc.Elements(array) {
		v, err := f.follow(element, tokens, i)
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

func (f *follower) standin(value []byte, tokens []string, i int) ([]byte, error) {
	switch {
	case len(f.ref.Default) > f.left:
		return nil, fmt.Errorf("%s: %s: too many defaults", f.ref.At, quoted(f.ref.String()))
	case f.ref.Default != nil:
		f.left -= len(f.ref.Default)
		return f.ref.Default, nil
	case f.ref.Null:
		return []byte("null"), nil
	}
	place := "it"
	if i > 0 {
		place = quoted("/" + strings.Join(tokens[:i], "/"))
	}
	return nil, &Missing{Ref: f.ref, Why: place + " is " + shapeOf(value)}
}

// shapeOf says what there is to be found in a value.
func shapeOf(value []byte) string {
	const most = 6
	switch value[0] {
	case '[':
		n := 0
		for range jsonrpc.Elements(value) {
			n++
		}
		return fmt.Sprintf("an array of %d", n)
	case '{':
		var names []string
		for m := range jsonrpc.Members(value) {
			if len(names) == most {
				names = append(names, "…")
				break
			}
			names = append(names, quoted(string(m.Name)))
		}
		if len(names) == 0 {
			return "an empty object"
		}
		return "an object of " + strings.Join(names, ", ")
	}
	return kindOf(value)
}

// trimmed is a JSON value without white space around it.
func trimmed(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }
