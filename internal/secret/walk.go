package secret

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
	aws   bool // there is the id of an AWS key in it
	inner int  // objects and arrays that have been gone through
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
		return w.array(i, k, command{})
	case '"':
		end, _ := w.text(i, k)
		return end
	}
	end := i
	for end < len(w.in) && strings.IndexByte(",]} \t\r\n", w.in[end]) < 0 {
		end++
	}
	digit := w.in[i] == '-' || w.in[i] >= '0' && w.in[i] <= '9'
	if digit && !k.loose && k.kind.number(end-i) {
		w.replace(i, end, mark(kinds[k.kind].rule))
	}
	return end
}

// object goes through an object. Its members are named, and some name each other:
// {"name": "Password", "value": "hunter2"}.
func (w *walk) object(i int, above scope) int {
	var p pair
	var c invocation
	w.inner++
	i = w.space(i + 1)
	for w.in[i] != '}' {
		if w.in[i] == ',' {
			i = w.space(i + 1)
		}
		end, name := w.text(i, scope{})
		from := w.space(w.space(end) + 1)
		k := scope{kind: classify(name)}
		if k.kind == plain && above.kind.strong() && !tells(name) {
			k = scope{kind: above.kind, loose: true}
		}
		edits, inner := len(w.edits), w.inner
		i = w.value(from, k)
		p.see(w, name, from, i)
		c.see(w, name, from, inner, edits)
		i = w.space(i)
	}
	p.close(w)
	c.close(w)
	return i + 1
}

// array goes through an array. An element may be the option that names the next:
// ["--password", "hunter2"], ["curl", "-u", "bob:hunter2"].
func (w *walk) array(i int, k scope, line command) int {
	w.inner++
	i = w.space(i + 1)
	for w.in[i] != ']' {
		if w.in[i] == ',' {
			i = w.space(i + 1)
		}
		of := k
		if of.kind == plain {
			of.kind = line.next
		}
		if w.in[i] != '"' {
			line.next = plain
			i = w.space(w.value(i, of))
			continue
		}
		end, s := w.text(i, of)
		if secret := line.see(s); secret > 0 {
			w.replace(i, end, w.clean(s[:secret]+mark(kinds[password].rule)))
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
	out := s
	if n := marked(s); n == 0 || n < len(s) {
		if out = w.clean(s); k.value(s) || out != s && k.kind.strong() && !k.loose {
			out = mark(kinds[k.kind].rule)
			if k.kind == userPassword {
				out = w.clean(s[:strings.IndexByte(s, ':')+1] + out)
			}
		}
	} else if s == mark(awsKey) {
		w.aws = true
	}
	if out != s {
		w.replace(i, end, out)
	}
	return end, out
}

// clean scrubs a string by itself.
func (w *walk) clean(s string) string {
	out, aws := clean(s, w.aws)
	w.aws = w.aws || aws
	return out
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
