package plan

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// names are what an unknown name may have been meant to be. Looking among ten
// thousand costs little, as most are ruled out by their length or letters.
type names struct {
	sorted []string
	masks  []uint64 // of the letters in each
}

// longestName is the longest that is compared.
const longestName = 128

func newNames(all []string) *names {
	n := &names{sorted: slices.Compact(slices.Sorted(slices.Values(all)))}
	n.masks = make([]uint64, len(n.sorted))
	for i, name := range n.sorted {
		n.masks[i] = letters(name)
	}
	return n
}

// has reports whether a name is one of them.
func (n *names) has(name string) bool {
	_, found := slices.BinarySearch(n.sorted, name)
	return found
}

// nearest is the one that was meant most likely: the same but for the case of its
// letters or what stands before a "__", or few letters away, or the only one that
// goes on where this one ends. "": none.
func (n *names) nearest(name string) string {
	if name == "" || len(name) > longestName {
		return ""
	}
	best, least := "", 1+allowedEdits(name)
	mask := letters(name)
	for i, other := range n.sorted {
		if strings.EqualFold(name, other) {
			return other
		}
		if d := len(other) - len(name); d >= least || -d >= least || bits.OnesCount64(mask^n.masks[i]) > 2*(least-1) {
			continue // each edit changes at most two of the letters
		}
		if d := edits(name, other, least-1); d < least && d < max(len(name), len(other)) {
			best, least = other, d
		}
	}
	if least > 1 {
		last := lastName(name)
		if same := n.only(func(other string) bool { return lastName(other) == last }); same != "" {
			return same // but for the name of its server
		}
	}
	if best == "" && len(name) >= 3 {
		return n.only(func(other string) bool { return strings.HasPrefix(other, name) })
	}
	return best
}

// only is the one that fits; "" if several do: who knows which of them was meant.
func (n *names) only(fits func(string) bool) string {
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
		mask |= 1 << (lower(name[i]) & 63)
	}
	return mask
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// edits is how many letters have to be changed, put in, taken out or swapped with
// their neighbour to make one name of the other (optimal string alignment), as far
// as that is at most most; else more than most.
func edits(a, b string, most int) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			same := lower(a[i-1]) == lower(b[j-1])
			row[j] = min(last[j], row[j-1], last[j-1]) + 1
			if same {
				row[j] = min(row[j], last[j-1])
			}
			if i > 1 && j > 1 && lower(a[i-1]) == lower(b[j-2]) && lower(a[i-2]) == lower(b[j-1]) {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > most {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// meant is the end of a message about an unknown name: what it may have been.
func (n *names) meant(name string) string {
	if n == nil {
		return ""
	}
	if near := n.nearest(name); near != "" {
		return "; did you mean " + quoted(near) + "?"
	}
	return ""
}
