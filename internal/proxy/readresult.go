package proxy

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// What is kept of the results of plans, so that what did not fit into an answer
// can be read. The oldest go first.
const (
	mostKept    = 128 << 20 // bytes
	mostKeptOne = 32 << 20  // of one result
	mostListed  = 100       // results that a list names: a client reads it all
)

// kept are results of plans that can be read for a while, with their handle and in the
// session that the plan was of.
type kept struct {
	mu  sync.Mutex
	all []*keptResult // oldest first
}

// keptResult is one of them.
type keptResult struct {
	session *session
	handle  string
	of      string // what it is the result of
	value   []byte // JSON
	at      time.Time
	until   time.Time
}

func (r *keptResult) bytes() int { return len(r.value) + 256 }

// add keeps a result and returns its handle, of at least 128 random bits; "" if it
// is too large to be kept.
func (k *kept) add(s *session, of string, value []byte, now time.Time, span time.Duration) string {
	r := &keptResult{session: s, handle: rand.Text(), of: of, value: value, at: now, until: now.Add(span)}
	if len(value) > mostKeptOne {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	room := mostKept - r.bytes()
	for i, old := range slices.Backward(k.all) { // the latest stay
		if room -= old.bytes(); room < 0 {
			k.all = slices.Delete(k.all, 0, i+1)
			break
		}
	}
	k.all = append(slices.DeleteFunc(k.all, func(old *keptResult) bool { return now.After(old.until) }), r)
	return r.handle
}

// of are the results of a session that can be read now, the latest first.
func (k *kept) of(s *session, now time.Time) (results []*keptResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range slices.Backward(k.all) {
		if r.session == s && !now.After(r.until) {
			results = append(results, r)
		}
	}
	return results
}

// find returns what a handle of the session stands for; nil: nothing any more.
func (k *kept) find(s *session, handle string, now time.Time) *keptResult {
	for _, r := range k.of(s, now) {
		if r.handle == handle {
			return r
		}
	}
	return nil
}

// drop forgets what is kept for a session that has ended.
func (k *kept) drop(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(r *keptResult) bool { return r.session == s })
}

// list says what is kept for a session, the latest first.
func (k *kept) list(s *session, now time.Time) string {
	results := k.of(s, now)
	if len(results) == 0 {
		return "Nothing is kept."
	}
	var b strings.Builder
	for _, r := range results[:min(len(results), mostListed)] {
		fmt.Fprintf(&b, "%s  %s, %d bytes, %v ago, kept for another %v\n", r.handle, r.of, len(r.value), now.Sub(r.at).Round(time.Second), r.until.Sub(now).Round(time.Second))
	}
	if more := len(results) - mostListed; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}
