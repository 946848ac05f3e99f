// Package nearest says which of the names there are an unknown one was meant to be.
//
// The one idea: a suggestion that is wrong costs more than none, so it is only made
// where few letters differ, or where nothing but the name of a server does.
//
//	nearest.New([]string{"get_issue", "list_issues"}).To("get_isue") // "get_issue"
package nearest

import (
	"cmp"
	"slices"
	"strings"
)

// Names are what an unknown name may have been meant to be. The nil Names holds none.
type Names struct{ sorted []string }

// longestName is the longest that is compared, in bytes.
const longestName = 128

// New makes Names of names in any order.
func New(all []string) *Names {
	return &Names{slices.Compact(slices.Sorted(slices.Values(all)))}
}

// Has reports whether a name is one of them.
func (n *Names) Has(name string) bool {
	if n == nil {
		return false
	}
	_, found := slices.BinarySearch(n.sorted, name)
	return found
}

// To is the one that was meant most likely: the longest that stands behind a "__" of
// it, as clients put their own name for a server in front; the same but for the case
// of its letters or what stands before a "__"; or few letters away; or the only one
// that goes on where this one ends. "": none.
func (n *Names) To(name string) string {
	if n == nil || name == "" {
		return ""
	}
	if listed := n.within(name); listed != "" {
		return listed
	}
	if len(name) > longestName {
		return ""
	}
	if near, edits := n.similar(strings.ToLower(name)); edits <= 1 {
		return near
	} else if same := n.only(func(other string) bool { return lastName(other) == lastName(name) }); same != "" {
		return same // but for the name of its server
	} else if near != "" {
		return near
	}
	if len(name) < 3 {
		return ""
	}
	return n.only(func(other string) bool { return strings.HasPrefix(other, name) })
}

// within is the longest name that another one ends in behind a "__"; "" if it ends in
// none.
func (n *Names) within(name string) string {
	if len(name) > 4*longestName {
		return ""
	}
	for i := range name {
		if rest, ok := strings.CutPrefix(name[i:], "__"); ok && n.Has(rest) {
			return rest
		}
	}
	return ""
}

// similar is the name that is the fewest letters away, and how many; "" and more
// than are allowed if there is none.
func (n *Names) similar(small string) (near string, distance int) {
	distance = 1 + allowedEdits(small)
	for _, name := range n.sorted {
		other := strings.ToLower(name)
		if apart := len(other) - len(small); max(apart, -apart) >= distance {
			continue
		}
		if d := Edits(small, other); d < distance && d < max(len(small), len(other)) {
			near, distance = name, d
		}
	}
	return near, distance
}

// only is the one that fits; "" if several do, for then it is not known which was meant.
func (n *Names) only(fits func(string) bool) string {
	found := ""
	for _, other := range n.sorted {
		if !fits(other) {
			continue
		}
		if found != "" {
			return ""
		}
		found = other
	}
	return found
}

// lastName is a name without what stands before its last "__".
func lastName(name string) string {
	if i := strings.LastIndex(name, "__"); i >= 0 {
		return name[i+len("__"):]
	}
	return name
}

// allowedEdits is how many letters a name may differ in from the one it was meant
// to be: a third of them, and no more than three.
func allowedEdits(name string) int { return cmp.Or(min(len(name)/3, 3), 1) }

// Edits is how many letters have to be changed, put in, taken out or swapped with their
// neighbour to make one name of the other (optimal string alignment).
func Edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j // of no letter of a to the first j of b
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j], row[j-1], last[j-1]) + 1
			if a[i-1] == b[j-1] {
				row[j] = min(row[j], last[j-1])
			} else if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
