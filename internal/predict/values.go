package predict

import (
	"strings"
	"unicode/utf8"
)

// Bounds on the values of one result.
const (
	maxValues     = 4096 // in total
	maxRows       = 512  // under one path
	maxPaths      = 96
	maxValueBytes = 300 // bytes of one value
	maxSpots      = 6   // positions remembered per value
	maxPathBytes  = 96
)

// values are the scalars of one result that could be arguments of later calls, by path. They
// are kept as long as their call is remembered and never saved.
type values struct {
	lists     []valueList
	paths     map[string]int        // path → index in lists
	positions map[string][]position // value → its positions
	count     int                   // rows in all lists
}

// valueList is the values under one path, such as $.items[*].id, or of one kind in a text.
type valueList struct {
	path string
	rows []row
	uniq []int32 // indexes of the first row of each distinct value; the index in uniq is the rank
}

type row struct {
	value scalar
	group int32 // the same for values of one array element or one line
}

// position is one occurrence of a value.
type position struct {
	list int32
	rank int32
}

// extract returns the values of an answer's structured content and of its text.
func (a *answer) extract() *values {
	v := &values{paths: map[string]int{}, positions: map[string][]position{}}
	for _, d := range []*document{a.structured, a.text} {
		if beginsJSON(d.in) && (len(d.nodes) > 1 || d.at == len(d.in)) {
			v.addDocument(d)
		} else {
			v.addText(d.in)
		}
	}
	return v
}

// beginsJSON distinguishes {"a": …} and [{…}] from "[FILE] name" and "[12:30] text".
func beginsJSON(b []byte) bool {
	i := skipBlank(b, 0)
	next := skipBlank(b, i+1)
	switch {
	case next >= len(b):
		return false
	case b[i] == '{':
		return b[next] == '"' || b[next] == '}'
	}
	return b[i] == '[' && strings.IndexByte("\"{[]-0123456789", b[next]) >= 0
}

// addDocument adds the scalars of a document by path: $.a.b, with [*] for array elements, .*
// for members whose name looks like data, and .{key} for these names themselves.
func (v *values) addDocument(d *document) {
	type step struct {
		parent int32
		name   string
	}
	paths, known := []string{"$"}, map[step]int32{}
	at := make([]struct{ path, group int32 }, len(d.nodes))
	for i := 1; i < len(d.nodes) && v.count < maxValues; i++ {
		n := &d.nodes[i]
		up := at[n.parent]
		name, group := n.name, up.group
		switch {
		case name == nil:
			name, group = []byte("[*]"), int32(i)
		case isDataKey(string(name)):
			name, group = []byte("*"), int32(i)
			v.add(v.listIndex(paths[up.path]+".{key}"), scalar{string(n.name), text}, group)
		}
		path, ok := known[step{up.path, string(name)}]
		if !ok {
			path = int32(len(paths))
			known[step{up.path, string(name)}] = path
			if n.name == nil {
				paths = append(paths, paths[up.path]+"[*]")
			} else {
				paths = append(paths, paths[up.path]+"."+string(name))
			}
		}
		at[i].path, at[i].group = path, group
		if n.kind != word && n.to-n.from <= 6*maxValueBytes {
			if s, ok := d.scalar(int32(i)); ok {
				v.add(v.listIndex(paths[path]), s, group)
			}
		}
	}
}

// listIndex returns the index of a path's list, adding it if necessary; -1 if there are too
// many.
func (v *values) listIndex(path string) int {
	if i, ok := v.paths[path]; ok {
		return i
	}
	if len(v.lists) >= maxPaths || len(path) > maxPathBytes {
		return -1
	}
	path = strings.Clone(path)
	v.lists = append(v.lists, valueList{path: path})
	v.paths[path] = len(v.lists) - 1
	return len(v.lists) - 1
}

// add adds a value to a list.
func (v *values) add(at int, value scalar, group int32) {
	if at < 0 || value.text == "" || len(value.text) > maxValueBytes {
		return
	}
	l := &v.lists[at]
	if v.count >= maxValues || len(l.rows) >= maxRows {
		return
	}
	places, known := v.positions[value.text]
	if known { // share the bytes of the first occurrence
		first := &v.lists[places[0].list]
		value.text = first.rank(int(places[0].rank)).value.text
	} else if !utf8.ValidString(value.text) {
		return
	}
	v.count++
	l.rows = append(l.rows, row{value, group})
	for _, p := range places {
		if p.list == int32(at) {
			return
		}
	}
	if len(places) < maxSpots {
		v.positions[value.text] = append(places, position{int32(at), int32(len(l.uniq))})
	}
	l.uniq = append(l.uniq, int32(len(l.rows)-1))
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

// rank returns the row of the n-th distinct value; the last one for -1.
func (l *valueList) rank(n int) row {
	if n < 0 {
		n += len(l.uniq)
	}
	return l.rows[l.uniq[n]]
}

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
// it has several digits, only digits, unusual characters, or is long.
func isDataKey(name string) bool {
	digits := 0
	for i := range len(name) {
		if isDigit(name[i]) {
			digits++
		}
	}
	return digits > 1 || digits == len(name) || strings.ContainsAny(name, "/ @") || len(name) > 40
}
