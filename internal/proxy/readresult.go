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

// serveReadResult serves a call of mcpschedd_read_result.
func serveReadResult(x *request, arguments []byte) (outcome, error) {
	q, err := parseReadQuery(arguments)
	if err != nil {
		return outcome{}, err
	}
	kept, plans := x.s.srv.kept, &x.s.srv.policy.Load().Plans
	if q.handle == "" {
		if x.s.identity.scope == "" {
			return outcome{}, errors.New("handle: missing")
		}
		return ownOutcome(textResult(kept.list(x.s, time.Now()))), nil
	}
	r := kept.find(x.s, q.handle, time.Now())
	if r == nil {
		return outcome{}, fmt.Errorf("handle %q: unknown or expired (%v, [plan].handle_ttl)", q.handle, plans.KeepFor)
	}
	out, err := r.read(q, excerptLimit(plans.ResultTokens(plans.Budget)))
	if err != nil {
		return outcome{}, err
	}
	return ownOutcome(structuredResult(out, nil, false)), nil
}

// readQuery holds the arguments of mcpschedd_read_result.
type readQuery struct {
	handle  string
	pointer string
	offset  int // items, fields or bytes of text to skip; negative if absent
}

// parseReadQuery parses the arguments of mcpschedd_read_result.
func parseReadQuery(raw []byte) (readQuery, error) {
	q := readQuery{offset: -1}
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

// read returns the requested part, or as much of it as fits with pointers to the rest.
func (r *keptResult) read(q readQuery, limit excerpt.Limit) ([]byte, error) {
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

// fitted returns the longest output of build that fits the limit, or build(0) if none fits.
func fitted(limit excerpt.Limit, size int, build func(chars int) []byte) []byte {
	if out := limit.Fit(size, build); out != nil {
		return out
	}
	return build(0)
}

// part returns an excerpt of the requested value, with pointers to the parts left out.
func (r *keptResult) part(q readQuery, object bool, chars int) []byte {
	part, left := excerpt.Read(r.value, q.pointer, q.offset, chars)
	out := jsonrpc.Set(nil, "value", part)
	for _, l := range left {
		if l.Pointer == q.pointer && !object { // an object may have gaps, so an offset cannot describe the rest
			out = jsonrpc.Set(out, "next_offset", strconv.AppendInt(nil, int64(l.From), 10))
		}
	}
	if len(left) == 0 {
		return out
	}
	list, err := json.Marshal(left)
	if err != nil {
		panic(err) // unreachable: numbers and strings always marshal
	}
	return jsonrpc.Set(out, "left_out", list)
}

// Limits of the results of plans that are kept for mcpschedd_read_result.
const (
	maxKept       = 128 << 20 // bytes; the oldest results are evicted
	maxKeptResult = 32 << 20  // bytes of one result
	maxListed     = 100       // results in a list, which a model reads as a whole
)

// kept holds results of plans, which their session can read by handle until they expire.
type kept struct {
	mu  sync.Mutex
	all []*keptResult // oldest first
}

// keptResult is a kept result of a plan.
type keptResult struct {
	session *session
	handle  string
	label   string // plan and kind of the result
	value   []byte // JSON
	added   time.Time
	expires time.Time
}

func (r *keptResult) bytes() int { return len(r.value) + 256 }

// add keeps a result for ttl and returns its handle of at least 128 random bits, or "" if the
// result is too large.
func (k *kept) add(s *session, label string, value []byte, now time.Time, ttl time.Duration) string {
	r := &keptResult{session: s, handle: rand.Text(), label: label, value: value, added: now, expires: now.Add(ttl)}
	if len(value) > maxKeptResult {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	room := maxKept - r.bytes()
	for i, old := range slices.Backward(k.all) {
		if room -= old.bytes(); room < 0 {
			k.all = slices.Delete(k.all, 0, i+1)
			break
		}
	}
	k.all = append(slices.DeleteFunc(k.all, func(old *keptResult) bool { return now.After(old.expires) }), r)
	return r.handle
}

// of returns the unexpired results of a session, latest first.
func (k *kept) of(s *session, now time.Time) (results []*keptResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range slices.Backward(k.all) {
		if r.session == s && !now.After(r.expires) {
			results = append(results, r)
		}
	}
	return results
}

// find returns the session's unexpired result with the given handle, or nil.
func (k *kept) find(s *session, handle string, now time.Time) *keptResult {
	for _, r := range k.of(s, now) {
		if r.handle == handle {
			return r
		}
	}
	return nil
}

// drop removes the results of a session that has ended.
func (k *kept) drop(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(r *keptResult) bool { return r.session == s })
}

// list returns a text that lists the results of a session, latest first.
func (k *kept) list(s *session, now time.Time) string {
	results := k.of(s, now)
	if len(results) == 0 {
		return "No results to read."
	}
	var b strings.Builder
	for _, r := range results[:min(len(results), maxListed)] {
		fmt.Fprintf(&b, "%s  %s, %d bytes, %v ago, expires in %v\n", r.handle, r.label, len(r.value), now.Sub(r.added).Round(time.Second), r.expires.Sub(now).Round(time.Second))
	}
	if more := len(results) - maxListed; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return b.String()
}
