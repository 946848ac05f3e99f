package proxy

import (
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"mcpschedd/internal/deliver"
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
	out, err := r.read(q, plans.Brings(plans.Budget))
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

// read gives the part that is asked for, or as much of it as fits into so many tokens
// and what a client takes, together with what it says of the rest.
func (r *keptResult) read(q excerptOf, tokens int) ([]byte, error) {
	for sixteenths := 16; ; sixteenths = sixteenths * 3 / 4 {
		out, err := r.part(q, excerpt.Limit{Tokens: tokens * sixteenths / 16, Chars: mostBrought * sixteenths / 16, Count: deliver.Tokens})
		if err != nil || sixteenths == 1 || deliver.Tokens(out) <= tokens && utf8.RuneCount(out) <= mostBrought {
			return out, err
		}
	}
}

// part gives as much as the limit allows of what is asked for, and says what it leaves
// out.
func (r *keptResult) part(q excerptOf, limit excerpt.Limit) ([]byte, error) {
	value := jsonrpc.At(r.value, q.pointer)
	if value == nil {
		return nil, fmt.Errorf("pointer %q: nothing there", q.pointer)
	}
	if q.offset >= 0 && value[0] != '[' && value[0] != '{' {
		return readText(value, q.offset, limit)
	}
	part, left := excerpt.Read(r.value, q.pointer, q.offset, limit)
	out := jsonrpc.Set(nil, "value", part)
	for _, l := range left {
		if l.Pointer == q.pointer && value[0] != '{' { // what is left out of an object may have gaps
			out = jsonrpc.Set(out, "next_offset", strconv.AppendInt(nil, int64(l.From), 10))
		}
	}
	if len(left) > 0 {
		out = jsonrpc.Set(out, "left_out", leftOut(left))
	}
	return out, nil
}

// readText gives a text from a byte on.
func readText(value []byte, offset int, limit excerpt.Limit) ([]byte, error) {
	text, ok := jsonrpc.String(value)
	if !ok {
		text = string(value)
	}
	if offset > len(text) {
		return nil, fmt.Errorf("offset %d: the text has %d bytes", offset, len(text))
	}
	part, next := excerpt.Text(text, offset, limit)
	out := jsonrpc.Set(nil, "text", jsonrpc.AppendString(nil, part))
	if next >= 0 {
		out = jsonrpc.Set(out, "next_offset", strconv.AppendInt(nil, int64(next), 10))
	}
	return jsonrpc.Set(out, "bytes", strconv.AppendInt(nil, int64(len(text)), 10)), nil
}

// leftOut lists what did not fit, by pointers into the whole result.
func leftOut(left []excerpt.Left) []byte {
	out := []byte("[")
	for i, l := range left {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendString(append(out, `{"pointer":`...), l.Pointer), `,"what":`...)
		out = jsonrpc.AppendString(out, l.What)
		out = fmt.Appendf(out, `,"offset":%d,"count":%d,"bytes":%d}`, l.From, l.Count, l.Bytes)
	}
	return append(out, ']')
}
