package valuemodel

import (
	"slices"
	"strings"
	"unicode"
)

// Intent is the set of word stems in the model's stated intent; nil if there is none.
type Intent map[string]bool

// NewIntent returns the stems of keywords or texts.
func NewIntent(texts []string) Intent {
	if len(texts) == 0 {
		return nil
	}
	all := make(Intent)
	for _, text := range texts {
		for _, word := range stems(text) {
			all[word] = true
		}
	}
	return all
}

// Matches reports whether the name of a field of the group contains a word of the intent.
func (i Intent) Matches(g FieldGroup) bool {
	return len(i) > 0 && slices.ContainsFunc(g.Fields, func(field string) bool {
		return slices.ContainsFunc(stems(field), func(word string) bool { return i[word] })
	})
}

// stems returns the words of a field's name or a text without a plural s: "full_dom",
// "fullDOM" and "the full DOMs" have two in common. It omits single letters, which would
// match by coincidence.
func stems(s string) []string {
	var all []string
	for _, word := range words(s) {
		if word = strings.TrimSuffix(word, "s"); len(word) > 1 {
			all = append(all, word)
		}
	}
	return all
}

// words splits a name or a text into lower-case words, at characters other than letters and
// digits and before capitals.
func words(s string) []string {
	var b strings.Builder
	lower := false
	for _, c := range s {
		switch {
		case !unicode.IsLetter(c) && !unicode.IsDigit(c):
			c = ' '
		case unicode.IsUpper(c) && lower:
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(c)
		b.WriteRune(unicode.ToLower(c))
	}
	return strings.Fields(b.String())
}
