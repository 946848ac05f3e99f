package proxy

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// status says how the proxy stands, for the record, of which there is one for each server of a
// process.
func (s *Server) status() record.Status { return s.standing(s.common.reportedBy(s)) }

// standing is that, with what is the process's, memory and what hosts allow, if that is wanted.
// It may be asked before the server is made.
func (s *Server) standing(whole bool) record.Status {
	out := record.Status{Upstreams: []record.UpstreamStatus{}, Clients: s.clients()}
	if whole {
		out.MemoryKB = residentKB(os.Getpid())
	}
	p := s.policy.Load()
	if p == nil {
		return out
	}
	out.Pinned, out.Budgets = s.pinnedNow(), s.spendings(whole)
	config := s.figures.config(p)
	out.Config, out.ConfigError = config.Path, config.Error
	for _, m := range p.members {
		u, at := m.reach(p), m.up.Standing()
		u.Name, u.State, u.Since, u.Restarts = m.Spec.Name, at.State, record.Stamp(at.Since), at.Restarts
		if at.State != "ready" {
			u.Error = at.Error
		}
		for _, id := range at.Processes {
			u.MemoryKB += residentKB(id)
		}
		out.Upstreams = append(out.Upstreams, u)
	}
	if whole {
		out.Hosts = s.hosts()
	}
	return out
}

// clients are the open sessions by client and folder, which is not known of those over HTTP.
func (s *Server) clients() []record.ClientStatus {
	open := make(map[record.ClientStatus]int)
	for _, n := range s.sessions.all() {
		c := record.ClientStatus{Client: clientName(n.client.facts().Info)}
		if s.figures.begin.Transport != "http" {
			c.Dir = s.figures.begin.Dir
		}
		open[c]++
	}
	out := []record.ClientStatus{}
	for c, n := range open {
		c.Sessions = n
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b record.ClientStatus) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.Dir, b.Dir))
	})
	return out
}

// reach is what the tools of an upstream allow. It is remembered, for hundreds of tools take
// a while.
func (m *member) reach(p *policy) record.UpstreamStatus {
	offer := m.up.Offered()
	if known := m.reached.Load(); known != nil && known.offer == offer {
		return known.UpstreamStatus
	}
	now := &reached{offer, reachOf(p, m.Upstream, offer)}
	m.reached.Store(now)
	return now.UpstreamStatus
}

// reached is what the tools of an upstream allow, by an offer.
type reached struct {
	offer *upstream.Offer
	record.UpstreamStatus
}

// reachOf counts the tools whose answers may be stored, and that may be called early, and
// finds the one line of the configuration that gains most where some may not.
func reachOf(p *policy, u Upstream, offer *upstream.Offer) record.UpstreamStatus {
	if offer == nil {
		return record.UpstreamStatus{Why: "its tools are not known yet: no session has used it"}
	}
	provider, unknown := "", 0
	count := func(model valuemodel.Upstream, exclusive bool) (out record.UpstreamStatus) {
		use := valuemodel.Use{Prefetch: p.Enrichment.Mode, MaxAge: p.Enrichment.MaxAge, Dollars: p.Enrichment.Dollars, Exclusive: u.Exclusive || exclusive}
		unknown = 0
		for _, item := range offer.Lists[upstream.Tools] {
			if u.Allows != nil && !u.Allows(item.Name) {
				continue
			}
			said, hints := Said(model, offer, item.Name)
			m := p.Models.Resolve(said, item.Name, hints)
			provider = cmp.Or(provider, m.Provider)
			out.Tools++
			if m.Unclassified() {
				unknown++
			}
			cacheable, prefetchable := m.Allows(use)
			if cacheable {
				out.Cacheable++
			}
			if prefetchable {
				out.Prefetchable++
			}
		}
		return out
	}
	now := count(u.Model, false)
	switch {
	case now.Prefetchable == now.Tools:
		return now
	case unknown > 0 && unknown == now.Tools:
		now.Why = "nothing is known of its tools, so each call counts as a write"
	case unknown > 0:
		now.Why = fmt.Sprintf("nothing is known of %d of its tools, so each call of them counts as a write", unknown)
	case p.Enrichment.Off():
		now.Why, now.Change = `[enrichment] mode is "off"`, `mode = "on" in [enrichment]`
		return now
	}
	lost, most := unknown, now.Cacheable+now.Prefetchable
	for _, c := range u.Model.Changes(provider) {
		then := count(c.Upstream, c.Exclusive)
		if then.Cacheable+then.Prefetchable <= most {
			continue
		}
		if now.Why == "" && now.Prefetchable == 0 && then.Cacheable == now.Cacheable {
			now.Why = "what it reads may be changed by any program on this machine, unseen"
		}
		// A known server of this machine answers within milliseconds, from what people change too.
		if c.Exclusive && (provider != "" || now.Change != "" || now.Prefetchable > 0) {
			continue
		}
		most, now.Change = then.Cacheable+then.Prefetchable, c.Text
	}
	if now.Change == "" && lost > 0 {
		now.Change = "mcpschedd check --connect -v prints the lines to paste"
	}
	return now
}

// residentKB is the memory in KiB of a process and of those that it has started; 0 where
// the system does not tell.
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
	if pid == os.Getpid() { // its upstreams count by themselves
		return kb
	}
	threads, _ := filepath.Glob(filepath.Join(folder, "task", "*", "children")) // the pattern is well-formed
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
