// Package nearest says which of the names there are an unknown one was meant to be.
//
// The one idea: a suggestion that is wrong costs more than none, so it is only made
// where few letters differ, or where nothing but the name of a server does.
//
//	nearest.New([]string{"get_issue", "list_issues"}).To("get_isue") // "get_issue"
package nearest

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// Names are what an unknown name may have been meant to be. Looking among ten
// thousand costs little, as most are ruled out by their length or letters. The nil
// Names holds none.
type Names struct {
	sorted []string
	small  []string // the same in small letters
	masks  []uint64 // of the letters in each
}

// longestName is the longest that is compared, in bytes.
const longestName = 128

// New makes Names of names in any order.
func New(all []string) *Names {
	n := &Names{sorted: slices.Compact(slices.Sorted(slices.Values(all)))}
	for _, name := range n.sorted {
		small := strings.ToLower(name)
		n.small = append(n.small, small)
		n.masks = append(n.masks, letters(small))
	}
	return n
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
	mask := letters(small)
	for i, other := range n.small {
		most := distance - 1
		if d := len(other) - len(small); d > most || -d > most || bits.OnesCount64(mask^n.masks[i]) > 2*most {
			continue // each edit changes at most two of the letters
		}
		if d := edits(small, other, most); d <= most && d < max(len(small), len(other)) {
			near, distance = n.sorted[i], d
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

// letters is the set of letters of a name; some share a place.
func letters(name string) uint64 {
	var mask uint64
	for i := range len(name) {
		mask |= 1 << (name[i] & 63)
	}
	return mask
}

// edits is how many letters have to be changed, put in, taken out or swapped with
// their neighbour to make one name of the other, as far as that is at most most;
// else more than most. The names differ by at most so much in length. (Optimal
// string alignment, within a band: Ukkonen 1985.)
func edits(a, b string, most int) int {
	var rows [3][longestName + 8]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range min(len(b), most) + 1 {
		last[j] = j
	}
	last[min(len(b), most)+1] = most + 1
	for i := 1; i <= len(a); i++ {
		from, to := max(1, i-most), min(len(b), i+most)
		row[from-1], row[to+1] = most+1, most+1
		if from == 1 {
			row[0] = i
		}
		for j := from; j <= to; j++ {
			row[j] = min(last[j], row[j-1], last[j-1]) + 1
			if a[i-1] == b[j-1] {
				row[j] = min(row[j], last[j-1])
			} else if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], most+1)
}
