package metrics

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"mcpschedd/internal/telemetry"
)

// longest (bytes) is how much of a name becomes a label: servers choose them.
const longest = 200

// label is how a tool is named in samples.
type label struct{ upstream, tool string }

// names is what everything is called in one scrape. Two samples with the same labels
// would spoil it, so names that only differ in what cannot be shown get a number.
type names struct {
	tools map[string]label  // upstream/tool → its labels
	hosts map[string]string // host → its label
}

func named(s *telemetry.Stats) *names {
	n := &names{tools: make(map[string]label, len(s.Tools)), hosts: make(map[string]string, len(s.Hosts))}
	taken := map[string]bool{"/" + unknown: true} // upstream/tool, as shown
	for _, key := range slices.Sorted(maps.Keys(s.Tools)) {
		upstream, tool, split := strings.Cut(key, "/")
		if !split {
			upstream, tool = "", key // "(other)": all beyond the bound
		}
		shown := distinct(taken, clean(upstream)+"/", clean(tool))
		n.tools[key] = label{clean(upstream), shown}
	}
	clear(taken)
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		n.hosts[host] = distinct(taken, "", clean(host))
	}
	return n
}

// distinct returns the name, with a number if it is taken.
func distinct(taken map[string]bool, scope, name string) string {
	shown := name
	for i := 2; taken[scope+shown]; i++ {
		shown = fmt.Sprintf("%s~%d", name, i)
	}
	taken[scope+shown] = true
	return shown
}

// clean returns a name as a label can hold it.
func clean(name string) string {
	if len(name) > longest {
		n := longest
		for n > 0 && !utf8.RuneStart(name[n]) {
			n--
		}
		name = name[:n]
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}
