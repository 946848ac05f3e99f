package valuemodel

import (
	"slices"
	"strings"
	"unicode"
)

// Intent is the words that say what the model is after. A nil one says nothing.
type Intent map[string]bool

// IntentOf is the words of keywords or texts.
func IntentOf(texts []string) Intent {
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

// Names reports whether a field of the group has a word of the intent in its name.
func (i Intent) Names(g FieldGroup) bool {
	return len(i) > 0 && slices.ContainsFunc(g.Fields, func(field string) bool {
		return slices.ContainsFunc(stems(field), func(word string) bool { return i[word] })
	})
}

// stems are the words of a field's name or a text, without the s of a plural: "full_dom",
// "fullDOM" and "the full DOMs" have two in common. A word of a single letter would be no
// more than a coincidence.
func stems(s string) []string {
	var all []string
	for _, word := range words(s) {
		if word = strings.TrimSuffix(word, "s"); len(word) > 1 {
			all = append(all, word)
		}
	}
	return all
}

// words splits a name or a text at whatever is no letter and no digit, and before capitals,
// and gives them in lower case.
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
