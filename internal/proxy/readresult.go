package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// serveReadResult answers a call of mcpschedd_read_result.
func serveReadResult(x *request, arguments []byte) {
	result, err := readResult(x, arguments)
	if err != nil {
		result = failedResult(err)
	}
	x.finish(result)
}

func readResult(x *request, arguments []byte) ([]byte, error) {
	q, err := readExcerpt(arguments)
	if err != nil {
		return nil, err
	}
	kept, plans := x.s.srv.kept, &x.s.srv.policy.Load().Plans
	if q.handle == "" {
		if x.s.identity.scope == "" {
			return nil, errors.New("handle: missing")
		}
		return textResult(kept.list(x.s, time.Now())), nil
	}
	r := kept.find(x.s, q.handle, time.Now())
	if r == nil {
		return nil, fmt.Errorf("handle %q: unknown, or kept no longer (%v, [plan].handle_ttl)", q.handle, plans.KeepFor)
	}
	out, err := r.read(q, limits(plans.Brings(plans.Budget)))
	if err != nil {
		return nil, err
	}
	return structuredResult(out, nil, false), nil
}

// excerptOf is what is asked of a result that is kept.
type excerptOf struct {
	handle  string
	pointer string
	offset  int // items, fields or bytes of text before it; below 0: not asked for
}

// readExcerpt reads the arguments of mcpschedd_read_result.
func readExcerpt(raw []byte) (excerptOf, error) {
	q := excerptOf{offset: -1}
	var ok bool
	for m := range jsonrpc.Members(raw) {
		switch name := string(m.Name); name {
		case "handle":
			if q.handle, ok = jsonrpc.String(m.Value); !ok {
				return q, fmt.Errorf("handle: want a string, have %s", m.Value)
			}
		case "pointer":
			if q.pointer, ok = jsonrpc.String(m.Value); !ok || !jsonrpc.ValidPointer(q.pointer) {
				return q, fmt.Errorf(`pointer: want a JSON pointer such as "/items/20", have %.80s`, m.Value)
			}
		case "offset":
			n, err := strconv.ParseUint(string(m.Value), 10, 31)
			if err != nil {
				return q, fmt.Errorf("offset: want a whole number, of items or of bytes of a text, have %.80s", m.Value)
			}
			q.offset = int(n)
		default:
			return q, fmt.Errorf("%s: unknown; want handle, and pointer or offset", name)
		}
	}
	return q, nil
}

// read gives the part that is asked for, or as much of it as fits, together with what it
// says of the rest.
func (r *keptResult) read(q excerptOf, limit excerpt.Limit) ([]byte, error) {
	value := jsonrpc.At(r.value, q.pointer)
	text, isText := jsonrpc.String(value)
	switch {
	case value == nil:
		return nil, fmt.Errorf("pointer %q: nothing there", q.pointer)
	case q.offset < 0 || value[0] == '[' || value[0] == '{':
		return fitted(limit, len(value), func(chars int) []byte { return r.part(q, value[0] == '{', chars) }), nil
	case !isText:
		text = string(value)
	}
	if q.offset > len(text) {
		return nil, fmt.Errorf("offset %d: the text has %d bytes", q.offset, len(text))
	}
	return fitted(limit, len(text), func(chars int) []byte {
		part, next := excerpt.Text(text, q.offset, chars)
		out := jsonrpc.Set(nil, "text", jsonrpc.AppendString(nil, part))
		if next >= 0 {
			out = jsonrpc.Set(out, "next_offset", strconv.AppendInt(nil, int64(next), 10))
		}
		return jsonrpc.Set(out, "bytes", strconv.AppendInt(nil, int64(len(text)), 10))
	}), nil
}

// fitted is what fits, or else the least there is.
func fitted(limit excerpt.Limit, size int, build func(chars int) []byte) []byte {
	if out := limit.Fit(size, build); out != nil {
		return out
	}
	return build(0)
}

// part is an excerpt of the value that is asked for, and what it leaves out.
func (r *keptResult) part(q excerptOf, object bool, chars int) []byte {
	part, left := excerpt.Read(r.value, q.pointer, q.offset, chars)
	out := jsonrpc.Set(nil, "value", part)
	for _, l := range left {
		if l.Pointer == q.pointer && !object { // what is left out of an object may have gaps
			out = jsonrpc.Set(out, "next_offset", strconv.AppendInt(nil, int64(l.From), 10))
		}
	}
	if len(left) == 0 {
		return out
	}
	list, err := json.Marshal(left)
	if err != nil {
		panic(err) // numbers and strings always marshal
	}
	return jsonrpc.Set(out, "left_out", list)
}
