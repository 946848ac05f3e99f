package deliver

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// maxTrimDepth is how many levels of objects and arrays are looked at: each is read
// once more by the level around it.
const maxTrimDepth = 32

// fieldCutter leaves fields out of answers in JSON.
//
// A pattern is a field's name or a glob of one; with dots it names a field in a
// field. It means every field that ends so, however deep and in how many arrays:
// "user.login" is also items[3].user.login. A field that is also in a group that
// is shown stays.
type fieldCutter struct {
	out, keep [][]string // patterns of names, from the outermost on
	patterns  []string   // as they are written, beside out
	dropped   []string   // those that met a field
}

// cutter leaves out the groups that are not included by default, except those that
// the intent brings in.
func cutter(m *valuemodel.Model, intent valuemodel.Intent) *fieldCutter {
	c := &fieldCutter{}
	if m == nil {
		return c
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		g := m.FieldGroups[name]
		if g.DefaultInclude == nil {
			continue
		}
		wanted := *g.DefaultInclude || intent.Names(g)
		for _, field := range g.Fields {
			if wanted {
				c.keep = append(c.keep, strings.Split(field, "."))
			} else {
				c.out, c.patterns = append(c.out, strings.Split(field, ".")), append(c.patterns, field)
			}
		}
	}
	return c
}

// trim returns text without the fields that are left out. Other members keep their
// bytes and their order. What is no JSON object or array is returned as it is.
func (c *fieldCutter) trim(text string) string {
	b := []byte(text)
	start := bytes.TrimSpace(b)
	if len(c.out) == 0 || len(start) == 0 || start[0] != '{' && start[0] != '[' || !jsonrpc.Valid(b) {
		return text
	}
	return string(c.value(nil, b, nil, maxTrimDepth))
}

// value appends b, a JSON value that the names lead to, without what is left out of
// as many levels as there are left.
func (c *fieldCutter) value(dst, b []byte, names []string, levels int) []byte {
	start := len(b) - len(bytes.TrimLeft(b, " \t\r\n"))
	switch {
	case levels == 0:
	case b[start] == '{':
		return c.object(append(dst, b[:start+1]...), b, start+1, names, levels-1)
	case b[start] == '[':
		return c.array(append(dst, b[:start+1]...), b, start+1, names, levels-1)
	}
	return append(dst, b...)
}

// object appends the members of b, an object whose brace ends before i, each with
// the white space around it.
func (c *fieldCutter) object(dst, b []byte, i int, names []string, levels int) []byte {
	kept := 0
	for m := range jsonrpc.Members(b) {
		start := i + bytes.IndexByte(b[i:], '"') // before it: a comma if it is not the first
		end := start + len(m.Raw)
		next := len(b) - len(bytes.TrimLeft(b[end:], " \t\r\n"))
		if inner := append(names, string(m.Name)); !c.drops(inner) {
			before := b[i:start]
			if kept++; kept == 1 {
				before = bytes.TrimPrefix(before, []byte(","))
			}
			dst = append(append(dst, before...), b[start:end-len(m.Value)]...)
			dst = append(c.value(dst, m.Value, inner, levels), b[end:next]...)
		}
		i = next
	}
	return append(dst, b[i:]...)
}

// array appends the elements of b, an array whose bracket ends before i.
func (c *fieldCutter) array(dst, b []byte, i int, names []string, levels int) []byte {
	for e := range jsonrpc.Elements(b) {
		start := i + bytes.IndexByte(b[i:], e[0]) // before it: white space and a comma
		dst = c.value(append(dst, b[i:start]...), e, names, levels)
		i = start + len(e)
	}
	return append(dst, b[i:]...)
}

// drops reports whether the field that the names lead to is left out.
func (c *fieldCutter) drops(names []string) bool {
	i := slices.IndexFunc(c.out, func(pattern []string) bool { return endsIn(names, pattern) })
	if i < 0 || slices.ContainsFunc(c.keep, func(pattern []string) bool { return endsIn(names, pattern) }) {
		return false
	}
	if !slices.Contains(c.dropped, c.patterns[i]) {
		c.dropped = append(c.dropped, c.patterns[i])
	}
	return true
}

func endsIn(names, pattern []string) bool {
	if len(pattern) > len(names) {
		return false
	}
	for i, name := range names[len(names)-len(pattern):] {
		// path.Match stops * at slashes, which mean nothing in a name
		ok, err := path.Match(strings.ReplaceAll(pattern[i], "/", "\x00"), strings.ReplaceAll(name, "/", "\x00"))
		if !ok || err != nil {
			return false
		}
	}
	return true
}
