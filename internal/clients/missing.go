package clients

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Existing is an upstream that a configuration has.
type Existing struct {
	Name, Command, URL string
	Args               []string
}

// Missing are the servers that a configuration lacks. There are those that it has, under
// whatever name. One whose name is that of another upstream is neither: that is kept. What
// is to be said of those that are not missing is in notes.
func Missing(servers []Server, have []Existing) (missing, there []Server, notes []string) {
	for _, s := range servers {
		mine := reach(Existing{Command: s.Command, URL: s.URL, Args: s.Args})
		named := slices.IndexFunc(have, func(e Existing) bool { return e.Name == s.Name })
		reached := slices.IndexFunc(have, func(e Existing) bool { return reach(e) == mine })
		switch {
		case named >= 0 && reach(have[named]) == mine:
			notes = append(notes, fmt.Sprintf("upstreams.%s is there already", s.Name))
			there = append(there, s)
		case reached >= 0:
			notes = append(notes, fmt.Sprintf("%s is there already, as upstreams.%s", s.Name, have[reached].Name))
			there = append(there, s)
		case named >= 0:
			notes = append(notes, fmt.Sprintf("upstreams.%s is there already, with another command or url: it was kept, and this one left out", s.Name))
		default:
			missing = append(missing, s)
		}
	}
	return missing, there, notes
}

var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// reach is how an upstream is reached, whatever its variables are called.
func reach(e Existing) string {
	all := append([]string{e.Command, e.URL}, e.Args...)
	return reference.ReplaceAllString(strings.Join(all, "\x00"), "$${}")
}

// References are the variables that a text of our configuration refers to.
func References(text []byte) []string {
	var all []string
	for _, m := range referenced.FindAllSubmatch(text, -1) {
		all = append(all, string(m[1]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var referenced = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`)
