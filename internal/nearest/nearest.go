// Package nearest suggests which known name an unknown name was meant to be.
//
// A wrong suggestion is worse than none, so one is made only if few letters differ, or only the
// name of the server.
//
//	nearest.New([]string{"get_issue", "list_issues"}).To("get_isue") // "get_issue"
package nearest

import (
	"cmp"
	"slices"
	"strings"
)

// Names is a set of known names. A nil Names is empty.
type Names struct{ sorted []string }

// longestName is the length in bytes up to which names are compared.
const longestName = 128

// New returns the Names of all, in any order.
func New(all []string) *Names {
	return &Names{slices.Compact(slices.Sorted(slices.Values(all)))}
}

// Has reports whether name is a known name.
func (n *Names) Has(name string) bool {
	if n == nil {
		return false
	}
	_, found := slices.BinarySearch(n.sorted, name)
	return found
}

// To returns the known name that name most likely stands for, or "" if there is none. In order of
// preference, that is the longest known name that follows a "__" in name, since clients prefix
// their own name of the server; a name that differs, ignoring case, in at most one edit, or only
// in what precedes a "__"; a name within the allowed number of edits; or the only name with this
// prefix.
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
		return same // differs only in the server's name
	} else if near != "" {
		return near
	}
	if len(name) < 3 {
		return ""
	}
	return n.only(func(other string) bool { return strings.HasPrefix(other, name) })
}

// within returns the longest known name that follows a "__" in name, or "".
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

// similar returns the known name with the fewest edits and their number, or "" and one more than
// the allowed number.
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

// only returns the single name that fits, or "" if none or several do.
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

// lastName returns the part of a name after its last "__".
func lastName(name string) string {
	if i := strings.LastIndex(name, "__"); i >= 0 {
		return name[i+len("__"):]
	}
	return name
}

// allowedEdits returns the number of edits up to which a name is suggested: a third of its length,
// at least one and at most three.
func allowedEdits(name string) int { return cmp.Or(min(len(name)/3, 3), 1) }

// Edits returns the number of bytes to substitute, insert, delete or swap with a neighbour to turn
// one name into the other (optimal string alignment distance).
func Edits(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j // edits from "" to b[:j]
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
