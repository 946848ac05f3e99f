package valuemodel

import (
	"maps"
	"slices"
	"strings"
)

// Sharing says which packages of a table are servers that hold nothing of a session: what they
// answer depends on the call, on how they were started and on what is elsewhere.
type Sharing struct {
	Packages []string
	Unless   string // in any of the words it is started with, it makes that untrue; "": none does
	Folders  bool   // only if the command line names folders: else they are those of its client
}

// shareable reports whether the words start such a server.
func (s Settings) shareable() bool {
	if s.URL != "" {
		return false // there is no process
	}
	ref, rest := launched(append([]string{s.Command}, s.Args...))
	terms, known := summarised().Shareable[ref]
	words := slices.Concat(s.Args, slices.Collect(maps.Keys(s.Env)))
	switch {
	case !known:
		return false
	case terms.Unless != "" && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(word), terms.Unless) }):
		return false
	}
	return !terms.Folders || slices.ContainsFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
}
