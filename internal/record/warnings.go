package record

import (
	"fmt"
	"slices"
	"strings"
)

// Warning is a reason why a server does not work, or why nothing is saved.
type Warning struct {
	Message string `json:"what"`
	Fix     string `json:"mend,omitempty"` // command or configuration line that fixes it
}

// Warnings returns the warnings about the running processes, the most severe first.
func (s *Stats) Warnings() []Warning {
	all := []Warning{}
	warn := func(fix, format string, args ...any) {
		w := Warning{Message: Printable(fmt.Sprintf(format, args...)), Fix: Printable(fix)}
		if !slices.Contains(all, w) { // another process has the same
			all = append(all, w)
		}
	}
	for _, p := range s.Running {
		if p.ConfigError != "" {
			warn("mcpschedd check", "The current configuration file is not in force: %s", p.ConfigError)
		}
	}
	var passed []string
	for _, u := range s.upstreams() {
		if u.Error != "" && u.State != "idle" {
			warn("mcpschedd logs "+u.Name, "Server %s cannot be used now: %s", u.Name, u.Error)
		}
		if u.Tools > 0 && u.Cacheable == 0 && u.Prefetchable == 0 && u.Why != "" && u.Why != PrefetchOff && !slices.Contains(passed, u.Name) {
			passed = append(passed, u.Name)
		}
	}
	if len(passed) > 0 {
		warn("mcpschedd check --connect", "Nothing is cached or prefetched of: %s.", strings.Join(passed, ", "))
	}
	if n := s.Totals.EventsLost; n > 0 {
		warn("", "%d lines of the event log could not be written; the figures of the running process include them.", n)
	}
	if why := s.whyNoPrefetch(); why != "" {
		warn("", "Nothing was prefetched: %s.", why)
	}
	return all
}

// minCallsToReport is the number of calls above which the absence of prefetches is reported.
const minCallsToReport = 20

// whyNoPrefetch returns the reason why nothing was prefetched, or "" if something was, if there
// were few calls, or if prefetching is off.
func (s *Stats) whyNoPrefetch() string {
	f := &s.Totals
	declined := largest(f.Declined)
	isOff := slices.ContainsFunc(s.upstreams(), func(u UpstreamStatus) bool { return u.Why == PrefetchOff })
	switch {
	case isOff || f.Prefetch.Issued > 0 || max(f.Reads, f.Unclassified) <= minCallsToReport:
		return ""
	case f.Unclassified > f.Reads:
		return fmt.Sprintf("%d calls were to tools that are not known to be read-only; mcpschedd check --connect -v prints the lines to paste", f.Unclassified)
	case len(declined) == 0:
		return `no call was predicted; no follow-up has been seen, or [enrichment] mode is "off"`
	}
	return fmt.Sprintf("of %d candidates most were left out because %s", sumOf(f.Declined), meaningOf(declined[0]))
}
