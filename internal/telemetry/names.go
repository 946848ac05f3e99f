package telemetry

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// other is what counts together for what is beyond the bounds.
const other = "(other)"

// The bounds. Names come from clients and servers, which may invent any number of
// them, of any length.
const (
	mostTools     = 4096
	mostUpstreams = 256
	mostHosts     = 1024
	mostReasons   = 64  // reasons and causes of each kind
	longest       = 256 // bytes of a name
)

// tool is what is counted of one.
type tool struct {
	*sums
	id       int32
	name     string // upstream/tool
	followed int64  // turns with a call of it that another one followed
}

// tool finds a tool, or makes it; beyond the bound it is the other.
func (t *Tally) tool(upstream, name string) *tool {
	t.name = append(append(append(t.name[:0], upstream...), '/'), name...)
	if upstream == "" {
		t.name = t.name[1:]
	}
	if of, ok := t.tools[string(t.name)]; ok {
		return of
	}
	full := clean(string(t.name))
	if of, ok := t.tools[full]; ok {
		return of
	}
	if len(t.tools) > mostTools {
		return t.tools[other]
	}
	of := &tool{sums: newSums(1), id: int32(len(t.byID)), name: full}
	t.tools[full] = of
	t.byID = append(t.byID, of)
	return of
}

// upstream finds what is counted of one, or makes it; beyond the bound that of the others.
func (t *Tally) upstream(name string) *sums {
	if of, ok := t.upstreams[name]; ok {
		return of
	}
	if name = clean(name); len(t.upstreams) >= mostUpstreams {
		name = other
	}
	of, ok := t.upstreams[name]
	if !ok {
		of = newSums(1)
		t.upstreams[name] = of
	}
	return of
}

// bump adds to a count by name; beyond the bound to that of the others.
func bump(m *map[string]int64, name string, n int64) {
	if n <= 0 {
		return
	}
	if *m == nil {
		*m = make(map[string]int64)
	}
	if _, ok := (*m)[name]; !ok {
		if name = clean(name); len(*m) >= mostReasons {
			name = other
		}
	}
	(*m)[name] += n
}

// clean is a copy of a name that can be a key of JSON, and is not too long.
func clean(name string) string {
	return strings.Clone(cut(name, longest))
}

// cut is at most n bytes of a text, in whole characters.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// printable is a name without what a terminal may obey.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, name)
}

// ms is a time of an event that can be added up: 0 if it is none, at most 30 years.
func ms(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1e12)
}

// count is a number of an event that can be added up.
func count(n int64) int64 { return min(max(n, 0), 1<<40) }

// micros are those since 1970, until the year 9999; 0: not known.
func micros(at time.Time) int64 {
	const year9999 = 253402300799
	switch s := at.Unix(); {
	case s <= 0:
		return 0
	case s > year9999:
		return year9999 * second
	}
	return at.UnixMicro()
}

// last keeps the last so many of what is put into it.
type last[T any] struct {
	most int
	kept []T
	next int // that is overwritten next, once there are most
}

// put is the place for one more; it may hold what was there before.
func (l *last[T]) put() *T {
	if len(l.kept) < l.most {
		l.kept = append(l.kept, *new(T))
		return &l.kept[len(l.kept)-1]
	}
	at := &l.kept[l.next]
	l.next = (l.next + 1) % l.most
	return at
}

// all are those kept, oldest first.
func (l *last[T]) all() []*T {
	all := make([]*T, len(l.kept))
	for i := range l.kept {
		all[i] = &l.kept[(l.next+i)%len(l.kept)]
	}
	return all
}
