package predict

import (
	"strings"
	"unicode/utf8"
)

// Bounds on what is taken from one result.
const (
	maxValues     = 4096 // in all
	maxRows       = 512  // under one path
	maxPaths      = 96
	maxValueBytes = 300 // bytes of one value
	maxSpots      = 6   // places at which one value is remembered
	maxPathBytes  = 96
)

// values is what one result holds that could be an argument of a later call: the
// scalars under every path, in order. It lives as long as its call is remembered
// and is never written to a file.
type values struct {
	lists     []valueList
	paths     map[string]int        // path → place in lists
	positions map[string][]position // value → where it stands
	count     int                   // rows in all lists
}

// valueList is the values under one path, such as $.items[*].id or a kind of text.
type valueList struct {
	path string
	rows []row
	uniq []int32 // rows that are the first of their value: their place is the rank
}

type row struct {
	value scalar
	group int32 // values of one array element, or of one line, have the same group
}

// spot is one place at which a value stands.
type position struct {
	list int32
	rank int32
}

// extract reads the values out of an answer: of its structured content where it has one,
// and of its text.
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

// beginsJSON tells {"a": …} and [{…}] from "[FILE] name" and "[12:30] text".
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

// addDocument adds the scalars of a document, each under its path: $.a.b, [*] for the
// elements of an array, .* for a member with a name that looks like data, and .{key} for such
// names themselves.
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

// list finds the list of a path, or begins it; -1 if there are too many.
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

// add remembers a value under a path.
func (v *values) add(at int, value scalar, group int32) {
	if at < 0 || value.text == "" || len(value.text) > maxValueBytes {
		return
	}
	l := &v.lists[at]
	if v.count >= maxValues || len(l.rows) >= maxRows {
		return
	}
	places, known := v.positions[value.text]
	if known { // the bytes are shared with where it was first
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

// at returns the values of a path; nil if there are none.
func (v *values) lookup(path string) *valueList {
	if v == nil {
		return nil
	}
	if i, ok := v.paths[path]; ok {
		return &v.lists[i]
	}
	return nil
}

// size is how many different values a list has.
func (l *valueList) size() int {
	if l == nil {
		return 0
	}
	return len(l.uniq)
}

// rank is the row of the n-th different value, the last one for -1.
func (l *valueList) rank(n int) row {
	if n < 0 {
		n += len(l.uniq)
	}
	return l.rows[l.uniq[n]]
}

// beside returns the value of the same array element as another list's row.
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

// keyLike reports whether the name of a member looks like data and not like part
// of a structure: it has a digit and nothing else that a key would not have.
func isDataKey(name string) bool {
	digits := 0
	for i := range len(name) {
		if isDigit(name[i]) {
			digits++
		}
	}
	return digits > 1 || digits == len(name) || strings.ContainsAny(name, "/ @") || len(name) > 40
}
