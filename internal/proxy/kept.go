package proxy

import (
	"container/list"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// What is kept of the results of plans, so that what did not fit into an answer
// can be read. The oldest go first.
const (
	mostKept        = 256 << 20 // bytes
	mostKeptSession = 32 << 20  // of those, one session's
)

// kept are results of plans that can be read for a while, by whoever has the
// handle and is of the session that the plan was of.
type kept struct {
	mu      sync.Mutex
	order   *list.List // of *keeping, oldest first
	found   map[string]*keeping
	bytes   int
	shelves map[*session]*shelf
}

// shelf is what is kept for one session.
type shelf struct {
	order list.List // of *keeping, oldest first
	bytes int
}

// keeping is one result that is kept.
type keeping struct {
	handle string
	s      *session
	of     string // what it is the result of
	value  []byte // JSON
	at     time.Time
	until  time.Time

	inAll, inShelf *list.Element
}

func newKept() *kept {
	return &kept{order: list.New(), found: make(map[string]*keeping), shelves: make(map[*session]*shelf)}
}

func (k *keeping) bytes() int { return len(k.value) + 256 }

// add keeps a result and returns its handle, of at least 128 random bits; "" if it
// is too large to be kept.
func (k *kept) add(s *session, of string, value []byte, now time.Time, span time.Duration) string {
	e := &keeping{handle: rand.Text(), s: s, of: of, value: value, at: now, until: now.Add(span)}
	n := e.bytes()
	if n > mostKeptSession {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	own := k.shelves[s]
	if own == nil {
		own = &shelf{}
		k.shelves[s] = own
	}
	for own.bytes+n > mostKeptSession {
		k.removeLocked(own.order.Front())
	}
	for at := k.order.Front(); at != nil && (k.bytes+n > mostKept || now.After(at.Value.(*keeping).until)); at = k.order.Front() {
		k.removeLocked(at)
	}
	k.shelves[s] = own // it may have been emptied
	e.inAll, e.inShelf = k.order.PushBack(e), own.order.PushBack(e)
	k.found[e.handle] = e
	k.bytes += n
	own.bytes += n
	return e.handle
}

func (k *kept) removeLocked(at *list.Element) {
	e := at.Value.(*keeping)
	own := k.shelves[e.s]
	k.order.Remove(e.inAll)
	own.order.Remove(e.inShelf)
	delete(k.found, e.handle)
	k.bytes -= e.bytes()
	if own.bytes -= e.bytes(); own.order.Len() == 0 {
		delete(k.shelves, e.s)
	}
}

// find returns what a handle of the session stands for; nil: nothing any more.
func (k *kept) find(s *session, handle string, now time.Time) *keeping {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.found[handle]
	if e == nil || e.s != s || now.After(e.until) {
		return nil
	}
	return e
}

// drop forgets what is kept for a session that has ended.
func (k *kept) drop(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for own := k.shelves[s]; own != nil && own.order.Len() > 0; {
		k.removeLocked(own.order.Front())
	}
}

// mostListed is how many results a list names: a client reads it all.
const mostListed = 100

// list says what is kept for a session, the latest first.
func (k *kept) list(s *session, now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var b strings.Builder
	own, n := k.shelves[s], 0
	if own == nil {
		own = &shelf{}
	}
	for at := own.order.Back(); at != nil; at = at.Prev() {
		e := at.Value.(*keeping)
		if now.After(e.until) {
			continue
		}
		if n++; n <= mostListed {
			fmt.Fprintf(&b, "%s  %s, %d bytes, %v ago, kept for another %v\n", e.handle, e.of, len(e.value), now.Sub(e.at).Round(time.Second), e.until.Sub(now).Round(time.Second))
		}
	}
	switch {
	case n == 0:
		return "Nothing is kept."
	case n > mostListed:
		fmt.Fprintf(&b, "and %d more\n", n-mostListed)
	}
	return b.String()
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

// mostCuts is how often an excerpt is made smaller so that it fits together with
// what it says of the rest.
const mostCuts = 6

// read gives the part that is asked for, or as much of it as fits into so many tokens
// and what a client takes.
func (k *keeping) read(q excerptOf, tokens int) ([]byte, error) {
	limit := excerpt.Limit{Tokens: tokens, Chars: mostBrought, Count: deliver.Tokens}
	for cuts := 0; ; cuts++ {
		out, err := k.part(q, limit)
		if err != nil {
			return nil, err
		}
		counted, chars := deliver.Tokens(out), utf8.RuneCount(out)
		if cuts == mostCuts || counted <= tokens && chars <= mostBrought {
			return out, nil
		}
		limit.Tokens, limit.Chars = shrunk(limit.Tokens, counted, tokens), shrunk(limit.Chars, chars, mostBrought)
	}
}

// shrunk is the next number to ask for where the last one brought so many, and they
// may be no more than most. What is too much may be in proportion to what was asked
// for, or beside it.
func shrunk(asked, brought, most int) int {
	if brought <= most {
		return asked
	}
	next := asked * most / brought
	if beside := asked - (brought - most); beside > 0 {
		next = min(next, beside)
	}
	return max(next*15/16, 1)
}

// part gives as much as the limit allows of what is asked for, and says what it leaves
// out.
func (k *keeping) part(q excerptOf, limit excerpt.Limit) ([]byte, error) {
	value := jsonrpc.At(k.value, q.pointer)
	if value == nil {
		return nil, fmt.Errorf("pointer %q: nothing there", q.pointer)
	}
	if q.offset >= 0 && value[0] != '[' && value[0] != '{' {
		return readText(value, q.offset, limit)
	}
	part, left := excerpt.Read(k.value, q.pointer, q.offset, limit)
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
