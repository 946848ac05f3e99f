package valuemodel

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Intent is the set of word stems in the LLM's stated intent; nil if there is none.
type Intent map[string]bool

// NewIntent returns the stems of keywords or texts.
func NewIntent(texts []string) Intent {
	if len(texts) == 0 {
		return nil
	}
	all := make(Intent)
	for _, stem := range stems(strings.Join(texts, " ")) {
		all[stem] = true
	}
	return all
}

// Matches reports whether the name of a field of the group contains a word of the intent.
func (i Intent) Matches(g FieldGroup) bool {
	return len(i) > 0 && slices.ContainsFunc(g.Fields, func(field string) bool {
		return slices.ContainsFunc(stems(field), func(stem string) bool { return i[stem] })
	})
}

// wordForm matches a word of a name or a text: "full_dom" and "fullDOM" have two each.
var wordForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\p{Lu}]*[^\p{Lu}\P{L}\d]*\d*`) })

// stems returns the words of a field's name or a text in lower case, without a plural s.
// It omits single letters, which would match by coincidence.
func stems(s string) (all []string) {
	for _, word := range wordForm().FindAllString(s, -1) {
		if word = strings.TrimSuffix(strings.ToLower(word), "s"); len(word) > 1 {
			all = append(all, word)
		}
	}
	return all
}

// verbs are the verbs in names of tools that suggest a class.
var verbs = sync.OnceValue(func() (f struct{ read, write *regexp.Regexp }) {
	f.read = regexp.MustCompile(`^(?:get|list|search|read|find|fetch|describe|show|view|query|lookup|count|check|` +
		`inspect|browse|retrieve|explain|diff|compare|resolve|peek|stat|status)$`)
	f.write = regexp.MustCompile(`^(?:create|update|delete|write|add|remove|set|edit|insert|upsert|put|patch|move|` +
		`rename|copy|merge|close|reopen|assign|unassign|send|post|push|commit|upload|publish|archive|restore|enable|` +
		`disable|start|stop|cancel|approve|reject|clear|drop|replace|append|submit|reset|apply|deploy|fork|star|` +
		`unstar|reply)$`)
	return f
})

// Suggest guesses a class from the first verb of a tool's name, for a proposal that a
// person reviews. No model uses it.
func Suggest(tool string) Class {
	found := Indeterminate
	for _, word := range wordForm().FindAllString(tool, -1) {
		switch word = strings.ToLower(word); {
		case word == "and" || word == "or": // get_or_create
			found = Indeterminate
		case found == Indeterminate && verbs().write.MatchString(word):
			return MutatesExternal
		case found == Indeterminate && verbs().read.MatchString(word):
			found = ReadOnly
		}
	}
	return found
}
