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

// allows reports whether a server that is started so is one: of a package that is none of them
// there are no terms.
func (t Sharing) allows(s Settings, rest []string) bool {
	words := slices.Concat(s.Args, slices.Collect(maps.Keys(s.Env)))
	return len(t.Packages) > 0 &&
		!(t.Unless != "" && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(word), t.Unless) })) &&
		(!t.Folders || slices.ContainsFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") }))
}
