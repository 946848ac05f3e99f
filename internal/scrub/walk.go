package scrub

import (
	"cmp"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// walk goes through a valid JSON value once.
type walk struct {
	in    []byte
	edits []edit
}

// edit replaces a part of the value.
type edit struct {
	from, to int
	with     []byte
}

// scope is what the names above a value say of it.
type scope struct {
	kind  kind
	loose bool // it is that of the object that the value is a member of: what is in it need not be secret
}

func (k scope) value(s string) bool {
	return k.kind != plain && k.kind.value(s) && (!k.loose || likely(s))
}

func (w *walk) result() []byte {
	if len(w.edits) == 0 {
		return w.in
	}
	slices.SortFunc(w.edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	out := make([]byte, 0, len(w.in))
	done := 0
	for _, e := range w.edits {
		out = append(append(out, w.in[done:e.from]...), e.with...)
		done = e.to
	}
	return append(out, w.in[done:]...)
}

// value goes through the value that begins at i or behind white space there, and
// returns the place behind it.
func (w *walk) value(i int, k scope) int {
	i = w.space(i)
	switch w.in[i] {
	case '{':
		return w.object(i, k)
	case '[':
		return w.array(i, k)
	case '"':
		end, _ := w.text(i, k)
		return end
	}
	end := i
	for end < len(w.in) && strings.IndexByte(",]} \t\r\n", w.in[end]) < 0 {
		end++
	}
	digit := w.in[i] == '-' || w.in[i] >= '0' && w.in[i] <= '9'
	if digit && !k.loose && (k.kind == password || k.kind == pwd || k.kind == pin) && end-i >= leastPin {
		w.replace(i, end, mark(kinds[k.kind].rule))
	}
	return end
}

// object goes through an object. Its members are named, and some name each other:
// {"name": "Password", "value": "hunter2"}.
func (w *walk) object(i int, above scope) int {
	var p pair
	i = w.space(i + 1)
	for w.in[i] != '}' {
		if w.in[i] == ',' {
			i = w.space(i + 1)
		}
		end, name := w.text(i, scope{})
		from := w.space(w.space(end) + 1)
		k := scope{kind: classify(name)}
		if k.kind == plain && kinds[above.kind].sure && !tells(name) {
			k = scope{kind: above.kind, loose: true}
		}
		i = w.value(from, k)
		p.see(w, name, from, i)
		i = w.space(i)
	}
	p.close(w)
	return i + 1
}

// array goes through an array. An element may be the option that names the next:
// ["--password", "hunter2"].
func (w *walk) array(i int, k scope) int {
	option := plain
	i = w.space(i + 1)
	for w.in[i] != ']' {
		if w.in[i] == ',' {
			i = w.space(i + 1)
		}
		of := k
		if of.kind == plain {
			of.kind = option
		}
		option = plain
		if w.in[i] != '"' {
			i = w.space(w.value(i, of))
			continue
		}
		end, s := w.text(i, of)
		if strings.HasPrefix(s, "-") && !strings.ContainsAny(s, " =") {
			option = classify(s)
		}
		i = w.space(end)
	}
	return i + 1
}

// text scrubs the string that begins at i, and returns what it is then and the
// place behind it.
func (w *walk) text(i int, k scope) (int, string) {
	end := w.end(i)
	s, _ := jsonrpc.String(w.in[i:end])
	clean := s
	if n := marked(s); n == 0 || n < len(s) {
		if clean = Text(s); k.value(s) || clean != s && k.kind != plain && kinds[k.kind].sure && !k.loose {
			clean = mark(kinds[k.kind].rule)
		}
	}
	if clean != s {
		w.replace(i, end, clean)
	}
	return end, clean
}

func (w *walk) replace(from, to int, with string) {
	w.edits = append(w.edits, edit{from, to, jsonrpc.AppendString(nil, with)})
}

// end is the place behind the string that begins at i.
func (w *walk) end(i int) int {
	for i++; w.in[i] != '"'; i++ {
		if w.in[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// space is the first place from i on that is not white space.
func (w *walk) space(i int) int {
	for i < len(w.in) && (w.in[i] == ' ' || w.in[i] == '\t' || w.in[i] == '\r' || w.in[i] == '\n') {
		i++
	}
	return i
}

// pair is what an object says of itself: what it names, and what that is.
type pair struct {
	kind     kind
	from, to int // of the value
	edit     int // that was made to it already; -1: none
}

// see takes a member whose value stands from from to to.
func (p *pair) see(w *walk, name string, from, to int) {
	if w.in[from] != '"' {
		return
	}
	switch strings.ToLower(name) {
	case "value", "text", "val", "content", "default":
		p.from, p.to, p.edit = from, to, len(w.edits)-1
		if p.edit >= 0 && w.edits[p.edit].from != from {
			p.edit = -1
		}
	case "name", "key", "header", "variable", "parameter", "param", "option":
		p.say(classify(w.read(from, to)))
	case "field", "label", "element", "selector", "placeholder":
		p.say(phrase(w.read(from, to)))
	}
}

func (p *pair) say(k kind) {
	if p.kind == plain {
		p.kind = k
	}
}

// read returns the string that has been gone through last, as it is now.
func (w *walk) read(from, to int) string {
	raw := w.in[from:to]
	if n := len(w.edits); n > 0 && w.edits[n-1].from == from {
		raw = w.edits[n-1].with
	}
	s, _ := jsonrpc.String(raw)
	return s
}

// close scrubs the value if its name says so.
func (p *pair) close(w *walk) {
	if p.kind == plain || p.to == 0 {
		return
	}
	s, _ := jsonrpc.String(w.in[p.from:p.to])
	if n := marked(s); n > 0 && n == len(s) || !p.kind.value(s) {
		return
	}
	if p.edit < 0 {
		p.edit = len(w.edits)
		w.replace(p.from, p.to, "")
	}
	w.edits[p.edit].with = jsonrpc.AppendString(nil, mark(kinds[p.kind].rule))
}
