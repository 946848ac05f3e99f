package record

import (
	"fmt"
	"maps"
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
			warn("mcpschedd check", "The current configuration file is not in force: %s", strings.ReplaceAll(p.ConfigError, "\n", "; "))
		}
		if p.StoreError != "" {
			warn("", "The replicas' store cannot be used, so no answer is served from the cache and no write is sent: %s", p.StoreError)
		}
	}
	var away, failed, uncached []string
	for _, u := range s.Servers() {
		switch {
		case u.Error != "" && u.State == idle:
			failed = append(failed, u.Name)
		case u.Error != "":
			away = append(away, u.Name)
		}
		hasPrefetches := s.Upstreams[u.Name].Prefetch.Issued > 0 // in turns that a client's hooks report
		if u.Tools > 0 && u.Cacheable == 0 && u.Prefetchable == 0 && !hasPrefetches && u.Why != "" && !strings.HasPrefix(u.Why, PrefetchOff) && !slices.Contains(uncached, u.Name) {
			uncached = append(uncached, u.Name)
		}
	}
	list := func(text string, names []string) {
		if len(names) > 0 {
			warn("mcpschedd check --connect", "%s: %s.", text, strings.Join(names, ", "))
		}
	}
	list("Not available now", away)
	list("Not available when last used", failed)
	list("Nothing is cached or prefetched of", uncached)
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		if ms := s.Hosts[host].CoolingMS; ms > 0 {
			warn("", "Nothing is prefetched from %s for %s, as it reported a rate limit.", host, duration(ms))
		}
		if s.Hosts[host].OverQuota > 0 && s.Totals.Declined[quota] > 0 { // not only on earlier days
			warn("", "Prefetches were left out because their host has an hourly limit of them: speculative_per_hour in [limits.%q] sets it.", host)
		}
	}
	if n := s.Totals.EventsLost; n > 0 {
		warn("", "%d lines of the event log could not be written; the figures of the running process include them.", n)
	}
	if why := s.whyNoPrefetch(); why != "" {
		warn("", "%s.", why)
	}
	return all
}

// minCallsToReport is the number of calls above which the absence of prefetches is reported.
const minCallsToReport = 20

// whyNoPrefetch returns why no client was given a prefetched result, or "" if one was or the fates of all
// prefetches are open, if there were few calls, or if prefetching is off.
func (s *Stats) whyNoPrefetch() string {
	f := &s.Totals
	const none = "Nothing was prefetched: "
	isOff := slices.ContainsFunc(s.Servers(), func(u UpstreamStatus) bool { return strings.HasPrefix(u.Why, PrefetchOff) })
	all, unlikely := sumOf(f.Declined), f.Declined[lowProbability] // most candidates of a list are unlikely, and that says little
	declined := slices.DeleteFunc(largest(f.Declined), func(reason string) bool { return reason == lowProbability })
	others := f.Calls - f.Reads - f.Unclassified - s.Tools[unknownTools].Calls // may write
	unused := ""
	if causes := largest(f.Prefetch.Wasted); len(causes) > 0 {
		unused = fmt.Sprintf("Prefetches that no call used: %d, most because %s", sumOf(f.Prefetch.Wasted), meaningOf(causes[0]))
	}
	switch compared := f.Prefetch.Compared; {
	case isOff || f.Prefetch.Used+f.Inlined > 0 || max(f.Reads, f.Unclassified, others) <= minCallsToReport:
		return ""
	case compared > 0:
		text := fmt.Sprintf("Nothing that was prefetched has been served yet: results of tools that only their server declares read-only are compared with those of calls first, %d so far", compared)
		return strings.TrimSuffix(text+". "+unused, ". ")
	case f.Prefetch.Issued > 0:
		return unused
	case f.Unclassified > f.Reads:
		return fmt.Sprintf(none+"%d calls were to tools that are not known to be read-only; mcpschedd check --connect -v prints the lines to paste", f.Unclassified)
	case others > f.Reads:
		return fmt.Sprintf(none+"%d calls may write, by their tools' classes or their arguments; mcpschedd explain NAME/TOOL says why", others)
	case all == 0:
		return none + `no call was predicted; no follow-up has been seen, or [enrichment] has mode = "off" or learn = false`
	case all == unlikely:
		return fmt.Sprintf(none+"none of %d candidates was likely enough (min_probability)", all)
	}
	return fmt.Sprintf(none+"%d of %d candidates were likely enough, and most of those were left out because %s", all-unlikely, all, meaningOf(declined[0]))
}

const (
	lowProbability = "low_probability" // enrich.LowProbability
	quota          = "quota"           // enrich.Quota
)
