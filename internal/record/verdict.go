package record

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// StatusText says what keeps servers from saving more, and how each upstream of the running
// processes stands. It is empty where there is nothing to say.
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

// Warning is one thing that keeps servers from working, or from saving more.
type Warning struct {
	Message string `json:"what"`
	Fix     string `json:"mend,omitempty"` // the line that mends it: a command, or one of the configuration
}

// Warnings returns what is wrong with the running processes, the worst first; what is wrong with what
// was read is in [View.Problems].
func (s *Stats) Warnings() []Warning {
	all := []Warning{}
	for _, p := range s.Running {
		if p.ConfigError != "" {
			all = append(all, Warning{"The configuration as it is written is not in force: " + Printable(p.ConfigError), "mcpschedd check"})
			break
		}
	}
	all = append(all, passing(merge(s.Running))...)
	if n := s.Totals.EventsLost; n > 0 {
		all = append(all, Warning{Message: fmt.Sprintf("%d lines of the record could not be written; the figures of their process count what they tell of.", n)})
	}
	if why := s.whyNothing(); why != "" {
		all = append(all, Warning{Message: why})
	}
	return all
}

// Saved is what was saved, in a sentence; period says when, such as "today".
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
		what = roughly(f.HiddenMS)
	}
	text := fmt.Sprintf("Saved %s of %s waiting", what, roughly(f.HiddenMS+f.WaitedMS))
	if n := f.TurnsSaved.Plan; n == 1 {
		text += " and 1 turn"
	} else if n > 1 {
		text += fmt.Sprintf(" and %d turns", n)
	}
	return text + period + "."
}

// roughly is a time of milliseconds as one says it.
func roughly(ms float64) string {
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

// mergedStatus is one upstream over several processes, and workplaces of the daemon, that have
// it in the same state.
type mergedStatus struct {
	UpstreamStatus
	places int
}

// merge puts upstreams of the same name and state together.
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

// passing says which servers cannot be used now, and which only pass through, by the reason.
func passing(all []mergedStatus) (wrong []Warning) {
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
			if strings.HasPrefix(u.Why, "nothing is known of ") {
				reason = ": nothing is known of their tools"
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

// upstreamTable is a line for each upstream, and below it what would change what it says.
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
	told := make(map[string]bool)
	for i, u := range all {
		b.WriteString(strings.TrimRight(lines[i], " \n") + "\n")
		down := u.State != "ready" && u.Error != ""
		if u.Why != "" && !told[u.Name] && !(down && u.Tools == 0) {
			told[u.Name] = true
			fmt.Fprintf(&b, "    %s", Printable(u.Why))
			if u.Change != "" {
				fmt.Fprintf(&b, "; to change that: %s", Printable(u.Change))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// processLines says which processes run, and for which clients: the daemon once, with a line for
// each workplace.
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
		p.Dir = "" // of its workplaces each has one
		b.WriteString(processLine(p) + "\n")
		for _, o := range places {
			fmt.Fprintf(&b, "    in %s%s\n%s%s", Printable(o.Dir), cmp.Or(clientWords(o.Clients), ": no client"), pinnedWords(o.Pinned), o.Budgets.words())
		}
	}
	return b.String()
}

// processLine is a process without its clients.
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

// pinnedWords says which tools are listed because of how they are used.
func pinnedWords(all []PinnedTool) string {
	var b strings.Builder
	for _, p := range all {
		fmt.Fprintf(&b, "    lists %s: %s\n", Printable(p.Tool), Printable(p.Why))
	}
	return b.String()
}

// words says what is left of the budgets.
func (b *BudgetStatus) words() string {
	if b == nil {
		return ""
	}
	var out strings.Builder
	for _, s := range b.Sessions {
		fmt.Fprintf(&out, "    %s was given about %d tokens", cmp.Or(Printable(s.Client), "a client"), s.Used)
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

// clientWords names clients; "": there are none.
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

// callsToSay is how many calls there must be until it is worth a line that none of them was
// answered ahead.
const callsToSay = 20

// whyNothing says why no prefetch was made; "": some were, or there were few calls.
func (s *Stats) whyNothing() string {
	f := &s.Totals
	names := largest(f.Declined)
	switch {
	case f.Prefetch.Issued > 0:
		return ""
	case f.Unclassified > callsToSay && f.Unclassified > f.Reads:
		return fmt.Sprintf("Nothing was prefetched: of %d calls nothing says that their tools only read, so they are neither stored nor prefetched: mcpschedd check --connect -v prints the lines to paste.", f.Unclassified)
	case f.Reads <= callsToSay:
		return ""
	case len(names) == 0:
		return `Nothing was prefetched: no call was thought of; nothing has been seen to follow, or [enrichment] mode is "off".`
	}
	var parts []string
	for _, name := range names[:min(len(names), 2)] {
		part := fmt.Sprintf("%d %s", f.Declined[name], Worded(name))
		if w, ok := Reasons[name]; ok {
			part += " (" + w.Meaning + ")"
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("Nothing was prefetched: of %d candidates %s.", sumOf(f.Declined), strings.Join(parts, "; "))
}
