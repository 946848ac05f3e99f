package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Warning is a reason why a server does not work, or why nothing is saved.
type Warning struct {
	Message string `json:"what"`
	Fix     string `json:"mend,omitempty"` // command or configuration line that fixes it
}

// Warnings returns the warnings about the running processes, the most severe first. Problems
// with the record itself are in [View.Problems].
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
		if u.Error != "" && (u.State == "down" || u.State == "starting") {
			warn("mcpschedd logs "+u.Name, "Server %s cannot be used now: %s", u.Name, u.Error)
		}
		if u.Tools > 0 && u.Cacheable == 0 && u.Why != "" && !slices.Contains(passed, u.Name) {
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

// whyNoPrefetch returns the reason why nothing was prefetched, or "" if something was, or if
// there were few calls.
func (s *Stats) whyNoPrefetch() string {
	f := &s.Totals
	declined := largest(f.Declined)
	switch {
	case f.Prefetch.Issued > 0 || max(f.Reads, f.Unclassified) <= minCallsToReport:
		return ""
	case f.Unclassified > f.Reads:
		return fmt.Sprintf("%d calls were to tools that are not known to be read-only; mcpschedd check --connect -v prints the lines to paste", f.Unclassified)
	case len(declined) == 0:
		return `no call was predicted; no follow-up has been seen, or [enrichment] mode is "off"`
	}
	return fmt.Sprintf("of %d candidates most were left out because %s", sumOf(f.Declined), wordOf(declined[0]).Meaning)
}

// upstreams returns the upstreams of all processes, those of the same name, state and error as
// one, with the sum of their memory.
func (s *Stats) upstreams() (all []UpstreamStatus) {
	for _, p := range s.Running {
		for _, u := range p.Upstreams {
			i := slices.IndexFunc(all, func(have UpstreamStatus) bool {
				return have.Name == u.Name && have.State == u.State && have.Error == u.Error
			})
			if i < 0 {
				all = append(all, u)
			} else {
				all[i].MemoryKB += u.MemoryKB
			}
		}
	}
	slices.SortStableFunc(all, func(a, b UpstreamStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// StatusText returns the warnings and the status of each upstream and running process, or "" if
// there are none.
func (s *Stats) StatusText() string {
	var b strings.Builder
	for _, w := range s.Warnings() {
		b.WriteString(w.Message + "\n")
	}
	if len(s.Running) == 0 {
		return b.String()
	}
	writeUpstreams(&b, s.upstreams())
	running := slices.Clone(s.Running)
	slices.SortStableFunc(running, func(a, b Status) int { return cmp.Compare(a.PID, b.PID) })
	for i, p := range running {
		for _, line := range p.lines(i > 0 && running[i-1].PID == p.PID) {
			b.WriteString(Printable(line) + "\n")
		}
	}
	return b.String()
}

// writeUpstreams writes a line for each upstream, and why some are not cached or prefetched, with
// what would change that.
func writeUpstreams(b *strings.Builder, all []UpstreamStatus) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w)
	var notes []string
	for _, u := range all {
		state, what := u.State, fmt.Sprintf("%d tools, %d cacheable, %d prefetchable%s", u.Tools, u.Cacheable, u.Prefetchable, memory(u.MemoryKB))
		if u.State != "ready" && u.Error != "" {
			what = u.Error
		}
		if u.Since != "" {
			state += " since " + localTime(u.Since, "15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", Printable(u.Name), Printable(state), Printable(what))
		if u.Why != "" && u.Tools > 0 {
			note := u.Name + ": " + u.Why
			if u.Change != "" {
				note += "; to change that: " + u.Change
			}
			notes = append(notes, Printable(note)+"\n")
		}
	}
	w.Flush() // writing to memory does not fail
	b.WriteString(strings.Join(slices.Compact(notes), "") + "\n")
}

// memory returns a size after a comma, or "" if it is not known.
func memory(kb int64) string {
	if kb == 0 {
		return ""
	}
	return fmt.Sprintf(", %d MB", kb>>10)
}

// lines describes a process with its clients, the tools it lists because of their use, and what
// is left of its budgets. A daemon has a status for each of its workplaces: after the first,
// which has the line about the process, further is set.
func (p *Status) lines(further bool) (all []string) {
	line := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	dir := cmp.Or(p.Dir, "an unknown folder")
	if further {
		line("  and in %s", dir)
	} else {
		line("process %d since %s, %s in %s, configuration %s%s", p.PID, localTime(p.Since, time.DateTime),
			cmp.Or(p.Transport, "stdio"), dir, cmp.Or(p.Config, "built in"), memory(p.MemoryKB))
	}
	for _, c := range p.Clients {
		line("    %s: %d open", cmp.Or(c.Client, "a client"), c.Sessions)
	}
	for _, t := range p.Pinned {
		line("    lists %s: %s", t.Tool, t.Why)
	}
	if p.Budgets == nil {
		return all
	}
	for _, s := range p.Budgets.Sessions {
		left := "no limit"
		if s.Left != nil {
			left = fmt.Sprintf("%d are left", *s.Left)
		}
		line("    %s has used about %d tokens, %s", cmp.Or(s.Client, "a client"), s.Used, left)
	}
	if pool := p.Budgets.Pool; pool != nil {
		line("    the pool of %d tokens has %d left for %v", pool.Tokens, max(0, pool.Tokens-pool.Used), time.Duration(pool.LeftS)*time.Second)
	}
	return all
}

// localTime formats a time of a status (RFC 3339) for people.
func localTime(text, layout string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "an unknown time"
	}
	return at.Local().Format(layout)
}
