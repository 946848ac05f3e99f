package predict

import (
	"strings"
	"unicode/utf8"
)

// Bounds on what is taken from one result.
const (
	maxRead         = 256 << 10 // bytes looked at
	maxValues       = 4096      // in all
	maxRows         = 512       // under one path
	maxPaths        = 96
	maxValueBytes   = 300 // bytes of one value
	maxExtractDepth = 24  // of JSON
	maxSpots        = 6   // places at which one value is remembered
	maxNameSize     = 96  // bytes of a path
)

// Values is what one result holds that could be an argument of a later call: the
// scalars under every path, in order. It lives as long as its call is remembered
// and is never written to a file.
type Values struct {
	lists []valueList
	paths map[string]int    // path → place in lists
	spots map[string][]spot // value → where it stands
	count int               // rows in all lists
	cut   bool              // something was left out
}

// list is the values under one path, such as $.items[*].id or a kind of text.
type valueList struct {
	path string
	rows []row
	uniq []int32 // rows that are the first of their value: their place is the rank
}

type row struct {
	value scalar
	group int32 // values of one array element have the same group
}

// spot is one place at which a value stands.
type spot struct {
	list int32
	rank int32
}

// Extract reads the values out of a result: from its structured content where it
// has one, and from its text. It is pure and bounded, so it may run on any
// goroutine: at most 256 KB, 4,096 values, 24 levels.
func Extract(content, structured []byte) *Values {
	v := &Values{paths: map[string]int{}, spots: map[string][]spot{}}
	for _, part := range [][]byte{structured, content} {
		if len(part) > maxRead {
			part, v.cut = part[:maxRead], true
		}
		if !v.scanJSON(part) {
			v.scanText(part)
		}
	}
	return v
}

// list finds the list of a path, or begins it; -1 if there are too many.
func (v *Values) list(path string) int {
	if i, ok := v.paths[path]; ok {
		return i
	}
	if len(v.lists) >= maxPaths || len(path) > maxNameSize {
		v.cut = true
		return -1
	}
	path = strings.Clone(path)
	v.lists = append(v.lists, valueList{path: path})
	v.paths[path] = len(v.lists) - 1
	return len(v.lists) - 1
}

// add remembers a value under a path.
func (v *Values) add(at int, value string, k kind, group int32) {
	if at < 0 || value == "" || len(value) > maxValueBytes {
		return
	}
	l := &v.lists[at]
	if v.count >= maxValues || len(l.rows) >= maxRows {
		v.cut = true
		return
	}
	places, known := v.spots[value]
	if !known {
		if !utf8.ValidString(value) {
			return
		}
		value = strings.Clone(value)
	} else {
		first := places[0]
		value = v.lists[first.list].rows[v.lists[first.list].uniq[first.rank]].value.text
	}
	v.count++
	l.rows = append(l.rows, row{scalar{value, k}, group})
	for _, p := range places {
		if p.list == int32(at) {
			return
		}
	}
	if len(places) < maxSpots {
		v.spots[value] = append(places, spot{int32(at), int32(len(l.uniq))})
	}
	l.uniq = append(l.uniq, int32(len(l.rows)-1))
}

// at returns the values of a path; nil if there are none.
func (v *Values) at(path string) *valueList {
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
func (l *valueList) beside(group int32) (scalar, bool) {
	for _, r := range l.rows {
		if r.group == group {
			return r.value, true
		}
	}
	return scalar{}, false
}
