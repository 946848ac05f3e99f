// Package nearest suggests which known name an unknown name was meant to be.
//
// A wrong suggestion is worse than none, so one is made only if few letters differ, or only the
// name of the server.
//
//	known := []string{"get_issue", "list_issues"}
//	nearest.To("get_isue", known)       // get_issue
//	nearest.Question("get_isue", known) // ; did you mean "get_issue"?
package nearest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// longestName is the length in bytes up to which the edits of names are counted.
const longestName = 128

// To returns the known name that name most likely stands for, or "" if there is none. In order of
// preference, that is the longest known name with which name ends behind a "__", since clients prefix
// their own name of the server; the one that differs least, ignoring case, by at most one edit for
// each three bytes of name, at least one and at most three; the only one that differs only in what
// precedes the last "__"; or the only one that name is a prefix of, if that has at least three bytes.
func To(name string, known []string) string {
	if name == "" {
		return ""
	}
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	var suffix string
	var same, longer []string
	for _, other := range known {
		if strings.HasSuffix(name, "__"+other) && len(other) > len(suffix) {
			suffix = other
		}
		if lastName(other) == lastName(name) {
			same = append(same, other)
		}
		if len(name) >= 3 && strings.HasPrefix(other, name) {
			longer = append(longer, other)
		}
	}
	return cmp.Or(suffix, near(name, known), only(same), only(longer))
}

// Question asks whether the name that [To] returns was meant, as the end of a message. It is "" if there is none.
func Question(name string, known []string) string {
	if meant := To(name, known); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	return ""
}

// only returns the name if there is one alone.
func only(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return ""
}

// near returns the name that differs in the fewest edits, or "" if all differ too much.
func near(name string, known []string) (best string) {
	distance := 1 + max(1, min(len(name)/3, 3))
	for _, other := range known {
		if max(len(name), len(other)) > longestName {
			continue
		}
		if d := Edits(strings.ToLower(name), strings.ToLower(other)); d < distance && d < max(len(name), len(other)) {
			best, distance = other, d
		}
	}
	return best
}

// lastName returns the part of a name after its last "__".
func lastName(name string) string { return name[strings.LastIndex("__"+name, "__"):] }

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
