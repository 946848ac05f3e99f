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

// stems takes a field's name or a text apart: "full_dom", "fullDOM" and "the full
// DOMs" have two words in common. A word is in lower case and without the s of a
// plural; of a single letter it would be no more than a coincidence.
func stems(s string) []string {
	var all []string
	var word strings.Builder
	end := func() {
		if w := strings.TrimSuffix(strings.ToLower(word.String()), "s"); len(w) > 1 {
			all = append(all, w)
		}
		word.Reset()
	}
	lower := false // the letter before
	for _, r := range s {
		letter := unicode.IsLetter(r) || unicode.IsDigit(r)
		if !letter || lower && unicode.IsUpper(r) {
			end()
		}
		if letter {
			word.WriteRune(r)
		}
		lower = unicode.IsLower(r)
	}
	end()
	return all
}
