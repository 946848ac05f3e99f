package predict

import (
	"slices"
	"strings"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
)

// Bounds on the values of one result.
const (
	maxValues       = 4096 // in total
	maxRows         = 512  // under one path
	maxPaths        = 96
	maxLearnedBytes = 300 // bytes of one value
	maxPathBytes    = 96
	maxTraits       = 4 // of one array element
	maxTraitValues  = 4 // of one path
	maxTraitBytes   = 24
)

// values are the scalars of one result that could be arguments of later calls, by path. They
// are kept as long as their call is remembered and never saved.
type values struct {
	lists     []valueList
	paths     map[string]int        // path → index in lists
	positions map[string][]position // value → its positions
	count     int                   // rows in all lists
	groups    int32                 // array elements and lines so far
	short     []shortValue          // those that may be traits
	traits    map[int32][]hash      // of the elements and lines that matches may have, by group; see findTraits
}

// shortValue is a value of an array element or a line, such as its type or state.
type shortValue struct {
	group       int32
	path, value hash
}

// valueList is the values under one path, such as $.items[*].id, or of one kind in a text.
type valueList struct {
	path string
	rows []row
	uniq []int32 // indexes of the first row of each distinct value; the index in uniq is the rank
}

type row struct {
	value scalar
	group int32 // the same for values of one array element or one line; 0 if they are of none
}

// position is one occurrence of a value.
type position struct {
	list int32
	rank int32
}

// extract returns the values of an answer's structured content and of its text.
func (a *answer) extract() *values {
	v := &values{paths: map[string]int{}, positions: map[string][]position{}}
	for _, p := range a.parts {
		if p.value == nil {
			v.addText(p.raw)
			continue
		}
		v.addText(p.before)
		v.addJSON(p.value, "$", 0, 0)
		v.addText(p.rest)
	}
	v.findTraits()
	return v
}

// addJSON adds the scalars of a JSON value by path: $.a.b, with [*] for array elements, .*
// for members with names that look like data, and .{key} for these names themselves.
func (v *values) addJSON(raw []byte, path string, group int32, depth int) {
	if depth > maxDepth || v.count >= maxValues || len(path) > maxPathBytes {
		return
	}
	if s, ok := scalarOf(raw); ok {
		v.addShort(path, s.Text, group)
		if s.Kind != literal {
			v.add(path, s, group)
		}
		return
	}
	for m := range jsonrpc.Members(raw) {
		if name := string(m.Name); isDataKey(name) {
			v.groups++
			v.add(path+".{key}", scalar{name, text}, v.groups)
			v.addJSON(m.Value, path+".*", v.groups, depth+1)
		} else {
			v.addJSON(m.Value, path+"."+name, group, depth+1)
		}
	}
	for element := range jsonrpc.Elements(raw) {
		v.groups++
		v.addJSON(element, path+"[*]", v.groups, depth+1)
	}
}

// addShort adds a value that may be a trait of its array element or line.
func (v *values) addShort(path, value string, group int32) {
	if group > 0 && len(value) <= maxTraitBytes && len(v.short) < maxValues {
		v.short = append(v.short, shortValue{group, seed.str(path), seed.str(value)})
	}
}

// findTraits finds the values by which elements of a list are told apart, such as "dir" and "file", open
// and closed, or whether one has children. They often decide which elements a client asks for. A path
// has a few such values, and each element one of them.
func (v *values) findTraits() {
	distinct, total := map[hash][]hash{}, map[hash]int{} // by path
	for _, s := range v.short {
		if known := distinct[s.path]; len(known) <= maxTraitValues && !slices.Contains(known, s.value) {
			distinct[s.path] = append(known, s.value)
		}
		total[s.path]++
	}
	found := map[int32][]hash{} // by group
	for _, s := range v.short {
		n, all := len(distinct[s.path]), found[s.group]
		if 1 < n && n <= maxTraitValues && n < total[s.path] && len(all) < maxTraits {
			found[s.group] = append(all, s.path.mix(s.value))
		}
	}
	v.traits = map[int32][]hash{}
	for i := range v.lists {
		l := &v.lists[i]
		for rank := range min(l.size(), maxRank) { // matches have no others
			if group := l.rank(rank).group; found[group] != nil {
				v.traits[group] = found[group]
			}
		}
	}
	v.short = nil
}

// add adds a value to the list of a path.
func (v *values) add(path string, value scalar, group int32) {
	if value.Text == "" || len(value.Text) > maxLearnedBytes || v.count >= maxValues || !utf8.ValidString(value.Text) {
		return
	}
	at, ok := v.paths[path]
	if !ok {
		if at = len(v.lists); at >= maxPaths {
			return
		}
		v.lists = append(v.lists, valueList{path: path})
		v.paths[path] = at
	}
	l := &v.lists[at]
	if len(l.rows) >= maxRows {
		return
	}
	v.count++
	l.rows = append(l.rows, row{value, group})
	places := v.positions[value.Text]
	if !slices.ContainsFunc(places, func(p position) bool { return p.list == int32(at) }) {
		v.positions[value.Text] = append(places, position{int32(at), int32(len(l.uniq))})
		l.uniq = append(l.uniq, int32(len(l.rows)-1))
	}
}

// lookup returns the values of a path; nil if there are none.
func (v *values) lookup(path string) *valueList {
	if v == nil {
		return nil
	}
	if i, ok := v.paths[path]; ok {
		return &v.lists[i]
	}
	return nil
}

// size returns the number of distinct values.
func (l *valueList) size() int {
	if l == nil {
		return 0
	}
	return len(l.uniq)
}

// rank returns the row of the n-th distinct value.
func (l *valueList) rank(n int) row { return l.rows[l.uniq[n]] }

// inGroup returns the value of the given array element.
func (l *valueList) inGroup(group int32) (scalar, bool) {
	if l != nil {
		for _, r := range l.rows {
			if r.group == group {
				return r.value, true
			}
		}
	}
	return scalar{}, false
}

// isDataKey reports whether the name of a member looks like data rather than a field name:
// it has several digits, only digits, unusual characters, such as those of paths, or is long.
func isDataKey(name string) bool {
	digits := 0
	for i := range len(name) {
		if isDigit(name[i]) {
			digits++
		}
	}
	return digits > 1 || digits == len(name) || strings.ContainsAny(name, "/ @.[*{") || len(name) > 40
}
