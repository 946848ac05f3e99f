package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Report returns the sums over the event log and the current state.
func (s *Server) Report() record.Stats {
	s.recorder.record()
	s.recorder.mu.Lock()
	out, open := s.recorder.tally.Stats(time.Now()), s.recorder.openPrefetchesLocked()
	s.recorder.mu.Unlock()
	s.addCurrent(&out, open)
	return out
}

// View returns what /stats and the dashboard show. Figures are those of all replicas; recent
// activity is that of this replica.
func (s *Server) View() record.View {
	s.recorder.record()
	s.recorder.mu.Lock()
	v, open := s.recorder.tally.View(time.Now()), s.recorder.openPrefetchesLocked()
	s.recorder.mu.Unlock()
	v.Period = "since it started"
	s.addCurrent(&v.Stats, open)
	s.common.addReplicas(&v.Stats)
	return v
}

// addCurrent adds the current state to out, with the prefetches of unknown fate.
func (s *Server) addCurrent(out *record.Stats, open []record.Event) {
	p := s.policy.Load()
	out.Config = record.Config{Path: p.ConfigPath, LoadedAt: p.loaded.UTC(), Error: s.rejection()}
	out.AddOpen(open...)
	now := s.currentStatus(true)
	s.recorder.log.FillStatus(&now)
	out.SetRunning([]record.Status{now})
}

// Reject records why a newer configuration was rejected. A nil error means that it was not.
func (s *Server) Reject(err error) {
	s.rejected.update(func(now *error) { *now = err })
	s.recorder.log.StatusChanged()
}

// rejection returns why a newer configuration was rejected, one mistake per line, or "".
func (s *Server) rejection() string {
	switch err := (*s.rejected.load()).(type) {
	case nil:
		return ""
	case interface{ Summary() string }:
		return err.Summary()
	default:
		return err.Error()
	}
}

// hosts returns the state of every host.
func (s *Server) hosts() map[string]record.Host {
	all := make(map[string]record.Host)
	p, now, levels := s.policy.Load(), time.Now(), s.prefetch.Scheduler.Stats().Hosts
	for _, h := range s.common.limits.Stats() {
		rule := p.Limits.Of(h.Host)
		shown := record.Host{
			Level: speculate.Normal, InFlight: h.InFlight, Waiting: h.Waiting, Limited: h.Limited, OverQuota: h.OverQuota,
			Rate: rule.Rate, Burst: rule.Burst, Concurrency: rule.Concurrency, Prefetches: h.LastHour, HarmMS: float64(h.HarmMS),
		}
		if level, changed := levels[h.Host]; changed {
			shown.Level = level
		}
		if !h.CoolingUntil.IsZero() {
			shown.CoolingMS = max(0, ms(h.CoolingUntil.Sub(now)))
		}
		if h.Tokens != nil {
			shown.Tokens = *h.Tokens
		}
		all[h.Host] = shown
	}
	return all
}

// status returns the state for the event log. A process has one log for each of its servers, and
// the first one reports for the process, as reports are summed.
func (s *Server) status() record.Status {
	servers := s.common.servers.list()
	return s.currentStatus(len(servers) > 0 && servers[0] == s)
}

// currentStatus returns the server's state. If whole is set, that includes the state of the
// process: memory, hosts and budgets.
func (s *Server) currentStatus(whole bool) record.Status {
	out := record.Status{Upstreams: []record.UpstreamStatus{}, Clients: s.clients()}
	p := s.policy.Load()
	if whole {
		out.MemoryKB, out.Hosts = residentKB(os.Getpid()), s.hosts()
		if p.Budgets.Pool > 0 {
			used, left := s.common.budgets.Used()
			out.Pool = &record.PoolBudget{Tokens: int64(p.Budgets.Pool), Used: int64(used), LeftS: int64(left.Seconds())}
		}
	}
	out.Pinned = make(map[string]string)
	for _, n := range s.sessions.list() {
		maps.Copy(out.Pinned, n.choices.Pinned())
	}
	out.Config, out.ConfigError = p.ConfigPath, s.rejection()
	if problem := s.common.replicas.Problem; problem != nil {
		out.StoreError = problem()
	}
	for _, m := range p.Members {
		u, at := m.ToolStatus(p.Policy, m.Up.LastOffer(), p.PrefetchSettings(m.Upstream)), m.Up.Health()
		u.Name, u.State, u.Since, u.Error, u.Restarts = m.Spec.Name, at.State, at.Since, at.Error, at.Restarts
		s.noteBarred(&u, m)
		s.catalog.NoteUnlisted(&u, p.Policy, m)
		for _, id := range at.Processes {
			u.MemoryKB += residentKB(id)
		}
		out.Upstreams = append(out.Upstreams, u)
	}
	return out
}

// noteBarred adds to an upstream's status that prefetches have barred some of its tools.
func (s *Server) noteBarred(u *record.UpstreamStatus, m *catalog.Member) {
	var barred []string
	for _, item := range m.Up.LastOffer().Items(upstream.Tools) {
		if s.prefetch.Tool(m.Key, item.Name).Barred {
			barred = append(barred, item.Name)
		}
	}
	if len(barred) == 0 || strings.HasPrefix(u.Why, record.PrefetchOff) {
		return
	}
	why := fmt.Sprintf("tools barred from prefetching: %d, such as %s (mcpschedd explain %[3]s/%[2]s or mcpschedd logs says why)", len(barred), barred[0], u.Name)
	if u.Why == "" {
		u.Why, u.Change = why, "" // no line of the configuration lifts every bar
	} else {
		u.Why = why + "; " + u.Why
	}
}

// clients returns the open sessions by client, with their use of the token budgets. The directory
// of HTTP clients is not known.
func (s *Server) clients() []record.ClientStatus {
	out := []record.ClientStatus{}
	for _, n := range s.sessions.list() {
		name := clientName(n.client.load().Info)
		i := slices.IndexFunc(out, func(c record.ClientStatus) bool { return c.Client == name })
		if i < 0 {
			i = len(out)
			out = append(out, record.ClientStatus{Client: name})
			if s.recorder.begin.Transport != "http" {
				out[i].Dir = s.recorder.begin.Dir
			}
		}
		c := &out[i]
		c.Sessions++
		if a := n.observed.agent.Load(); a != nil && s.policy.Load().Budgets.Enabled() {
			c.Used += int64(a.Used())
			if left := int64(a.Room(n.observed.turns.current()).Left); left != budget.Unbounded && (c.Left == nil || left < *c.Left) {
				c.Left = &left
			}
		}
	}
	slices.SortFunc(out, func(a, b record.ClientStatus) int { return cmp.Compare(a.Client, b.Client) })
	return out
}

// PrefetchSettings returns the settings on which the verdicts on an upstream's tools depend.
func (o *Options) PrefetchSettings(u catalog.Upstream) valuemodel.PrefetchSettings {
	return valuemodel.PrefetchSettings{
		Mode: o.Enrichment.Mode, NoStore: o.Dedup.MaxBytes == 0, NoBudget: o.Enrichment.Budget == 0,
		MaxAge: o.Enrichment.Age(u.Exclusive), Dollars: o.Enrichment.Dollars, Exclusive: u.Exclusive,
	}
}

// residentKB returns the resident memory of a process and its children in KiB, or 0 if the
// system does not report it.
func residentKB(pid int) (kb int64) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	text, err := os.ReadFile(filepath.Join(folder, "statm"))
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		kb = pages * int64(os.Getpagesize()) / 1024
	}
	if pid == os.Getpid() { // upstreams are counted on their own
		return kb
	}
	threads, _ := filepath.Glob(filepath.Join(folder, "task", "*", "children")) // the pattern is valid
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		for child := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(child); err == nil {
				kb += residentKB(id)
			}
		}
	}
	return kb
}
