package plan

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// Limits of the kept results.
const (
	maxKept       = 128 << 20 // bytes; the oldest results are evicted
	maxKeptResult = 32 << 20  // bytes of one result
	maxListed     = 100       // results in a list, which a model reads as a whole
)

// Kept holds results of plans, which mcpschedd_read_result reads by handle until they expire. An
// owner, any comparable value, can read only its own results. The zero value is empty.
type Kept struct {
	mu  sync.Mutex
	all []*keptResult // oldest first
}

type keptResult struct {
	owner   any
	handle  string
	label   string // plan and kind of the result
	value   []byte // JSON
	expires time.Time
}

// Add keeps a result for ttl and returns its handle of at least 128 random bits, or "" if the
// result is too large or ttl is 0.
func (k *Kept) Add(owner any, label string, value []byte, ttl time.Duration) string {
	if len(value) > maxKeptResult || ttl <= 0 {
		return ""
	}
	now := time.Now()
	r := &keptResult{owner: owner, handle: rand.Text(), label: label, value: value, expires: now.Add(ttl)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(slices.DeleteFunc(k.all, func(old *keptResult) bool { return now.After(old.expires) }), r)
	size := 0
	for i, old := range slices.Backward(k.all) {
		if size += len(old.value); size > maxKept {
			k.all = slices.Delete(k.all, 0, i+1)
			break
		}
	}
	return r.handle
}

// of returns the unexpired results of an owner, latest first.
func (k *Kept) of(owner any, now time.Time) (results []*keptResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range slices.Backward(k.all) {
		if r.owner == owner && !now.After(r.expires) {
			results = append(results, r)
		}
	}
	return results
}

// Drop removes the results of an owner.
func (k *Kept) Drop(owner any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = slices.DeleteFunc(k.all, func(r *keptResult) bool { return r.owner == owner })
}

// Len returns the number of results, expired ones included.
func (k *Kept) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.all)
}

// list describes the results that an owner can read.
func (k *Kept) list(owner any) string {
	var list strings.Builder
	now := time.Now()
	results := k.of(owner, now)
	for _, r := range results[:min(len(results), maxListed)] {
		fmt.Fprintf(&list, "%s  %s, %d bytes, expires in %s\n", r.handle, r.label, len(r.value), age.Text(r.expires.Sub(now).Round(time.Second)))
	}
	return cmp.Or(list.String(), "No results to read.")
}

// query is what mcpschedd_read_result is asked for.
type query struct {
	Handle  string `json:"handle"` // "" asks for a list
	Pointer string `json:"pointer"`
	Offset  uint32 `json:"offset"` // items, fields or bytes of text to skip
}

// excerptResult is the result of mcpschedd_read_result.
type excerptResult struct {
	Value json.RawMessage    `json:"value"`
	Left  []excerpt.Omission `json:"left_out,omitempty"`
}

// Read answers a call of mcpschedd_read_result: with the requested part, or as much of it as fits
// with pointers to the rest; or, without a handle, with a list of the owner's results as text. If
// the owner is shared, each of its clients can read only the results of which it has the handles.
func (k *Kept) Read(owner any, shared bool, arguments []byte, settings *Settings, count func([]byte) int) (value []byte, list string, err error) {
	var q query
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	switch {
	case d.Decode(&q) != nil:
		return nil, "", errors.New(`arguments: want an object with handle, a string, and at most pointer, a JSON pointer such as "/items/20", and offset, a whole number`)
	case q.Handle == "" && shared:
		return nil, "", errors.New("handle: missing; want the handle of a plan's answer, as over HTTP without a session the results cannot be listed")
	case q.Handle == "":
		return nil, k.list(owner), nil
	}
	results := k.of(owner, time.Now())
	i := slices.IndexFunc(results, func(r *keptResult) bool { return r.handle == q.Handle })
	if i < 0 {
		return nil, "", fmt.Errorf("handle %q: unknown or expired (%s, [plan].handle_ttl)", q.Handle, age.Text(settings.KeepFor))
	}
	whole := results[i].value
	part := jsonrpc.At(whole, q.Pointer)
	if part == nil || !jsonrpc.ValidPointer(q.Pointer) {
		at := whole // the last value on the way
		for name := range jsonrpc.PointerTokens(q.Pointer) {
			next := jsonrpc.At(at, "/"+jsonrpc.PointerToken(name))
			if next == nil {
				break
			}
			at = next
		}
		return nil, "", fmt.Errorf(`pointer %q: nothing there: %s; want a JSON pointer such as "/items/20"`, q.Pointer, shape(at))
	}
	if q.Offset > 0 && int(q.Offset) >= length(part) {
		return nil, "", fmt.Errorf("offset %d: the value at pointer %q has only %d items, fields or bytes of text: %s", q.Offset, q.Pointer, length(part), shape(part))
	}
	build := func(chars int) []byte {
		part, left := excerpt.Read(whole, q.Pointer, int(q.Offset), chars)
		return jsonrpc.Marshal(excerptResult{part, left})
	}
	if value = limitOf(settings.ResultTokens(settings.Budget), count).Fit(len(part), build); value == nil {
		value = build(0)
	}
	return value, "", nil
}

// length returns the number of items, fields or bytes of text.
func length(value []byte) int {
	text, _ := jsonrpc.String(value)
	n := len(text)
	for range jsonrpc.Elements(value) {
		n++
	}
	for range jsonrpc.Members(value) {
		n++
	}
	return n
}
