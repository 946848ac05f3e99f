package valuemodel

import (
	"maps"
	"slices"
	"strings"
)

// Sharing lists the packages of a table whose servers keep no session state: their results
// depend only on the call, the command line and external data.
type Sharing struct {
	Packages []string
	Unless   string // an argument or variable name containing this text disables sharing; "" if none does
	Folders  bool   // only if the command line names folders; otherwise the server uses its client's
}

// allows reports whether a server started with these settings may be shared.
func (t Sharing) allows(s Settings, rest []string) bool {
	words := slices.Concat(s.Args, slices.Collect(maps.Keys(s.Env)))
	return len(t.Packages) > 0 &&
		!(t.Unless != "" && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(strings.ToLower(word), t.Unless) })) &&
		(!t.Folders || slices.ContainsFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") }))
}
