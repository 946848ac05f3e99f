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

// trimmer leaves fields out of answers in JSON.
//
// A pattern is a field's name or a glob of one; with dots it names a field in a
// field. It means every field that ends so, however deep and in how many arrays:
// "user.login" is also items[3].user.login. A field that is also in a group that
// is shown stays.
type trimmer struct {
	drop, keep [][]string // patterns, by the names between their dots
	dropped    []string   // patterns that met a field
	cut        bool       // a field of the present text has been left out
}

// newTrimmer leaves out the groups of fields that are not included by default, except
// those that the intent brings in.
func newTrimmer(m *valuemodel.Model, intent valuemodel.Intent) *trimmer {
	t := &trimmer{}
	if m == nil {
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		g := m.FieldGroups[name]
		if g.DefaultInclude == nil {
			continue
		}
		wanted := *g.DefaultInclude || intent.Names(g)
		for _, field := range g.Fields {
			if pattern := strings.Split(field, "."); wanted {
				t.keep = append(t.keep, pattern)
			} else {
				t.drop = append(t.drop, pattern)
			}
		}
	}
	return t
}

// trim returns text without the fields that are left out. Other members keep their
// bytes and their order. What is no JSON object or array is returned as it is.
func (t *trimmer) trim(text string) string {
	b := bytes.TrimSpace([]byte(text))
	if len(t.drop) == 0 || len(b) == 0 || b[0] != '{' && b[0] != '[' || !jsonrpc.Valid(b) {
		return text
	}
	t.cut = false
	if b = t.value(b, nil, maxTrimDepth); t.cut {
		return string(b)
	}
	return text
}

// value returns a JSON value that the names lead to, without what is left out of
// as many levels as there are left.
func (t *trimmer) value(b []byte, names []string, levels int) []byte {
	switch {
	case levels == 0:
	case b[0] == '{':
		return jsonrpc.Rewrite(b, func(m jsonrpc.Member) []byte {
			inner := append(names, string(m.Name))
			if t.drops(inner) {
				return nil
			}
			return t.value(m.Value, inner, levels-1)
		})
	case b[0] == '[':
		var elements [][]byte
		for e := range jsonrpc.Elements(b) {
			elements = append(elements, t.value(e, names, levels-1))
		}
		return slices.Concat([]byte("["), bytes.Join(elements, []byte(",")), []byte("]"))
	}
	return b
}

// drops reports whether the field that the names lead to is left out.
func (t *trimmer) drops(names []string) bool {
	match := func(pattern []string) bool { return endsIn(names, pattern) }
	i := slices.IndexFunc(t.drop, match)
	if i < 0 || slices.ContainsFunc(t.keep, match) {
		return false
	}
	t.cut = true
	if pattern := strings.Join(t.drop[i], "."); !slices.Contains(t.dropped, pattern) {
		t.dropped = append(t.dropped, pattern)
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
