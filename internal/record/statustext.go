package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StatusText returns the warnings and the status of each upstream and running process, or "" if
// there are none.
func (s *Stats) StatusText() string {
	var b strings.Builder
	for _, w := range s.Warnings() {
		b.WriteString(w.Message + "\n")
	}
	if merged := merge(s.Running); len(merged) > 0 {
		b.WriteString("\n" + upstreamTable(merged))
	}
	if len(s.Running) > 0 {
		b.WriteString("\n" + processLines(s.Running))
	}
	return b.String()
}

// Warning is a reason why a server does not work, or why nothing is saved.
type Warning struct {
	Message string `json:"what"`
	Fix     string `json:"mend,omitempty"` // command or configuration line that fixes it
}

// Warnings returns the warnings about the running processes, the most severe first. Problems
// with the record itself are in [View.Problems].
func (s *Stats) Warnings() []Warning {
	all := []Warning{}
	for _, p := range s.Running {
		if p.ConfigError != "" {
			all = append(all, Warning{"The current configuration file is not in force: " + Printable(p.ConfigError), "mcpschedd check"})
			break
		}
	}
	all = append(all, serverWarnings(merge(s.Running))...)
	if n := s.Totals.EventsLost; n > 0 {
		all = append(all, Warning{Message: fmt.Sprintf("%d lines of the event log could not be written; the figures of the running process include them.", n)})
	}
	if why := s.whyNoPrefetch(); why != "" {
		all = append(all, Warning{Message: why})
	}
	return all
}

// Saved returns the savings in a sentence. period names the span of time, such as "today"; it may
// be empty.
func (s *Stats) Saved(period string) string {
	f := &s.Totals
	if period != "" {
		period = " " + period
	}
	if f.Calls+f.Plans+f.Prefetch.Issued == 0 {
		return "No calls" + period + "."
	}
	what := "nothing"
	if f.HiddenMS >= 1 {
		what = roundDuration(f.HiddenMS)
	}
	text := fmt.Sprintf("Saved %s of %s waiting", what, roundDuration(f.HiddenMS+f.WaitedMS))
	if n := f.TurnsSaved.Plan; n == 1 {
		text += " and 1 turn"
	} else if n > 1 {
		text += fmt.Sprintf(" and %d turns", n)
	}
	return text + period + "."
}

// roundDuration formats milliseconds coarsely, for a sentence.
func roundDuration(ms float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms < 120_000:
		return fmt.Sprintf("%.0f s", ms/1000)
	}
	return fmt.Sprintf("%.0f min", ms/60_000)
}

// mergedStatus is the status of an upstream that is in the same state in several processes or
// workplaces of the daemon.
type mergedStatus struct {
	UpstreamStatus
	places int
}

// merge combines upstreams of the same name and state.
func merge(running []Status) (all []mergedStatus) {
	for _, p := range running {
		for _, u := range p.Upstreams {
			i := slices.IndexFunc(all, func(have mergedStatus) bool {
				return have.Name == u.Name && have.State == u.State && have.Error == u.Error
			})
			if i < 0 {
				all = append(all, mergedStatus{u, 1})
				continue
			}
			one := &all[i]
			one.places++
			one.MemoryKB += u.MemoryKB
			one.Restarts += u.Restarts
			one.Since = max(one.Since, u.Since)
		}
	}
	slices.SortStableFunc(all, func(a, b mergedStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// serverWarnings returns the servers that are down and those without cacheable tools, grouped
// by reason.
func serverWarnings(all []mergedStatus) (wrong []Warning) {
	type group struct {
		reason, verb, mend string
		servers            []string
	}
	var groups []*group
	servers := make(map[string]bool)
	join := func(reason, verb, mend, server string) {
		i := slices.IndexFunc(groups, func(g *group) bool { return g.reason == reason })
		if i < 0 {
			i, groups = len(groups), append(groups, &group{reason, verb, mend, nil})
		}
		groups[i].servers = append(groups[i].servers, server)
	}
	for _, u := range all {
		name := Printable(u.Name)
		if servers[name] {
			continue
		}
		servers[name] = true
		if u.State == "down" || u.State == "starting" && u.Error != "" {
			join("", "cannot be used now", "mcpschedd logs "+name, name)
		}
		if u.Tools > 0 && u.Cacheable == 0 && u.Why != "" {
			reason := ": " + Printable(u.Why)
			if strings.Contains(u.Why, "tools are unclassified") {
				reason = ": their tools are unclassified"
			}
			join(reason, "pass through", Printable(u.Change), name)
		}
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return cmp.Compare(min(len(a.reason), 1), min(len(b.reason), 1)) })
	for _, g := range groups {
		n := len(g.servers)
		if n == 1 {
			g.verb = strings.Replace(g.verb, "pass ", "passes ", 1)
		}
		wrong = append(wrong, Warning{fmt.Sprintf("%d of %d servers %s%s: %s.", n, len(servers), g.verb, g.reason, strings.Join(g.servers, ", ")), g.mend})
	}
	return wrong
}

// upstreamTable returns a line for each upstream, followed by the configuration line that would
// make more tools cacheable.
func upstreamTable(all []mergedStatus) string {
	var cells [][]any
	for _, u := range all {
		state := u.State
		if at, err := time.Parse(time.RFC3339, u.Since); err == nil {
			state += " since " + at.Local().Format("15:04")
		}
		what := fmt.Sprintf("%d tools, %d cacheable, %d prefetchable", u.Tools, u.Cacheable, u.Prefetchable)
		if u.State != "ready" && u.Error != "" {
			what = Printable(u.Error)
		}
		var more []string
		if u.MemoryKB > 0 {
			more = append(more, fmt.Sprintf("%d MB", u.MemoryKB>>10))
		}
		if u.Restarts > 0 {
			more = append(more, fmt.Sprintf("%d restarts", u.Restarts))
		}
		if u.places > 1 {
			more = append(more, fmt.Sprintf("in %d places", u.places))
		}
		cells = append(cells, []any{Printable(u.Name), state, what, strings.Join(more, ", ")})
	}
	lines := strings.SplitAfter(aligned(cells), "\n")
	var b strings.Builder
	explained := make(map[string]bool)
	for i, u := range all {
		b.WriteString(strings.TrimRight(lines[i], " \n") + "\n")
		down := u.State != "ready" && u.Error != ""
		if u.Why != "" && !explained[u.Name] && !(down && u.Tools == 0) {
			explained[u.Name] = true
			fmt.Fprintf(&b, "    %s", Printable(u.Why))
			if u.Change != "" {
				fmt.Fprintf(&b, "; to change that: %s", Printable(u.Change))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// processLines returns a line for each running process and its clients. A daemon has one line,
// and one for each of its workplaces.
func processLines(running []Status) string {
	var b strings.Builder
	daemons := make(map[int]bool)
	for i, p := range running {
		if p.Transport != Daemon {
			b.WriteString(processLine(p) + clientWords(p.Clients) + "\n" + pinnedWords(p.Pinned) + p.Budgets.words())
			continue
		}
		if daemons[p.PID] {
			continue
		}
		daemons[p.PID] = true
		places := slices.DeleteFunc(slices.Clone(running[i:]), func(o Status) bool { return o.PID != p.PID })
		slices.SortFunc(places, func(a, b Status) int { return cmp.Compare(a.Dir, b.Dir) })
		for _, o := range places {
			p.MemoryKB = max(p.MemoryKB, o.MemoryKB)
		}
		p.Dir = "" // each workplace has its own
		b.WriteString(processLine(p) + "\n")
		for _, o := range places {
			fmt.Fprintf(&b, "    in %s%s\n%s%s", Printable(o.Dir), cmp.Or(clientWords(o.Clients), ": no client"), pinnedWords(o.Pinned), o.Budgets.words())
		}
	}
	return b.String()
}

// processLine describes a process without its clients.
func processLine(p Status) string {
	since := ""
	if at, err := time.Parse(time.RFC3339, p.Since); err == nil {
		since = " since " + at.Local().Format(time.DateTime)
	}
	line := fmt.Sprintf("process %d%s, %s", p.PID, since, cmp.Or(Printable(p.Transport), "stdio"))
	if p.Dir != "" {
		line += " in " + Printable(p.Dir)
	}
	line += ", configuration " + Printable(cmp.Or(p.Config, "built in"))
	if p.MemoryKB > 0 {
		line += fmt.Sprintf(", %d MB", p.MemoryKB>>10)
	}
	return line
}

// pinnedWords returns a line for each pinned tool.
func pinnedWords(all []PinnedTool) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "    lists %s: %s\n", Printable(p.Tool), Printable(p.Why))
	}
	return b.String()
}

// words describes what is left of the budgets.
func (b *BudgetStatus) words() string {
	if b == nil {
		return ""
	}
	var out strings.Builder
	for _, s := range b.Sessions {
		fmt.Fprintf(&out, "    %s has used about %d tokens", cmp.Or(Printable(s.Client), "a client"), s.Used)
		if s.Left != nil {
			fmt.Fprintf(&out, ", %d are left", *s.Left)
		}
		out.WriteString("\n")
	}
	if p := b.Pool; p != nil {
		fmt.Fprintf(&out, "    the pool of %d tokens has %d left for %v\n", p.Tokens, max(0, p.Tokens-p.Used), time.Duration(p.LeftS)*time.Second)
	}
	return out.String()
}

// clientWords lists the clients, or returns "" if there are none.
func clientWords(all []ClientStatus) string {
	var names []string
	for _, c := range all {
		name := cmp.Or(Printable(c.Client), "a client")
		if c.Sessions > 1 {
			name += fmt.Sprintf(" (%d sessions)", c.Sessions)
		}
		names = append(names, name)
	}
	if names == nil {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

// minCallsToReport is the number of calls above which the absence of prefetches is reported.
const minCallsToReport = 20

// whyNoPrefetch returns the reason why nothing was prefetched, or "" if something was, or if
// there were few calls.
func (s *Stats) whyNoPrefetch() string {
	f := &s.Totals
	names := largest(f.Declined)
	switch {
	case f.Prefetch.Issued > 0:
		return ""
	case f.Unclassified > minCallsToReport && f.Unclassified > f.Reads:
		return fmt.Sprintf("Nothing was prefetched: %d calls were to tools that are not known to be read-only, so they are neither cached nor prefetched: mcpschedd check --connect -v prints the lines to paste.", f.Unclassified)
	case f.Reads <= minCallsToReport:
		return ""
	case len(names) == 0:
		return `Nothing was prefetched: no call was predicted; no follow-up has been seen, or [enrichment] mode is "off".`
	}
	var parts []string
	for _, name := range names[:min(len(names), 2)] {
		part := fmt.Sprintf("%d %s", f.Declined[name], displayName(name))
		if w, ok := Reasons[name]; ok {
			part += " (" + w.Meaning + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("Nothing was prefetched: of %d candidates %s.", sumOf(f.Declined), strings.Join(parts, "; "))
}
