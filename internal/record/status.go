package record

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// Status is the status of one process. While the process runs, it keeps its status in a file
// beside its log for other processes to read, even with events off. The file contains no
// arguments, answers or secrets. It has 16 fields, as each is a member of that file.
type Status struct {
	Process     string            `json:"process" jsonschema:"Name of the process in the record."`
	PID         int               `json:"pid" jsonschema:"Process ID."`
	Since       time.Time         `json:"since" jsonschema:"Start time (RFC 3339)."`
	Program     string            `json:"program" jsonschema:"Version of the program."`
	Transport   string            `json:"transport" jsonschema:"stdio, http, or daemon for one workplace of the daemon."`
	Dir         string            `json:"dir" jsonschema:"Working directory."`
	Config      string            `json:"config" jsonschema:"Path of the configuration; empty if the built-in defaults are used."`
	ConfigError string            `json:"config_error,omitempty" jsonschema:"Why a newer configuration is not in force."`
	StoreError  string            `json:"store_error,omitempty" jsonschema:"Why the replicas' store cannot be used: no answer is served from it, and no write is sent."`
	MemoryKB    int64             `json:"memory_kb,omitempty" jsonschema:"Resident memory in KiB, if available; of a daemon only one workplace has it."`
	Upstreams   []UpstreamStatus  `json:"upstreams" jsonschema:"Status of its upstreams, in the order of the configuration."`
	Clients     []ClientStatus    `json:"clients" jsonschema:"Open sessions, by client and folder."`
	Hosts       map[string]Host   `json:"hosts,omitempty" jsonschema:"Limits and prefetching of the hosts that it calls, by name."`
	Pinned      map[string]string `json:"pinned,omitempty" jsonschema:"With tool search on: NAME/TOOL of those listed all the same because of how they are used, with the reason."`
	Pool        *PoolBudget       `json:"pool,omitempty" jsonschema:"Token budget that all sessions share, if there is one; of a daemon only one workplace has it."`
	Lost        int64             `json:"events_lost,omitempty" jsonschema:"Lines of the event log that could not be written."`
}

// Transports in the status of a process. Each workplace of a daemon has a status of its own.
const (
	Daemon = "daemon"
	HTTP   = "http"
)

// UpstreamStatus is the status of an upstream.
type UpstreamStatus struct {
	Name         string    `json:"name" jsonschema:"Name in the configuration."`
	State        string    `json:"state" jsonschema:"idle (no session needs it), starting, ready or down."`
	Since        time.Time `json:"since,omitzero" jsonschema:"Time since which it is in that state (RFC 3339)."`
	Error        string    `json:"error,omitempty" jsonschema:"Why its last connection ended or could not be made; of a server that is ready, why its tools could not be listed."`
	Restarts     int64     `json:"restarts,omitempty" jsonschema:"Number of restarts."`
	MemoryKB     int64     `json:"memory_kb,omitempty" jsonschema:"Resident memory of its processes in KiB, if available."`
	Tools        int       `json:"tools" jsonschema:"Tools that it offers to clients."`
	Cacheable    int       `json:"cacheable" jsonschema:"Of those, tools whose results may answer later calls."`
	Prefetchable int       `json:"prefetchable" jsonschema:"Of those, tools that may be prefetched."`
	Why          string    `json:"why,omitempty" jsonschema:"Why not more of them are cacheable or prefetchable."`
	Change       string    `json:"change,omitempty" jsonschema:"Configuration line that would change it, and the condition for adding it."`
}

// PrefetchOff begins the reason of an upstream of which nothing is prefetched, or cached, because the
// user has switched that off. It is no cause for a warning.
const PrefetchOff = "nothing is prefetched: "

// PoolBudget is the token budget that all sessions share in a time window.
type PoolBudget struct {
	Tokens int64 `json:"tokens" jsonschema:"Tokens per window." prom:"gauge"`
	Used   int64 `json:"used" jsonschema:"Tokens used in this window." prom:"gauge"`
	LeftS  int64 `json:"left_s" jsonschema:"Seconds until the window ends."`
}

// ClientStatus is the open sessions of one client in one folder.
type ClientStatus struct {
	Client   string `json:"client" jsonschema:"Name and version that the client reports."`
	Dir      string `json:"dir,omitempty" jsonschema:"Working directory, if known."`
	Sessions int    `json:"sessions" jsonschema:"Number of open sessions."`
	Used     int64  `json:"used,omitempty" jsonschema:"With token budgets: estimated tokens of the answers sent to them."`
	Left     *int64 `json:"left,omitempty" jsonschema:"Tokens left to the one that is nearest to its limit; absent if none has a limit."`
}

// SetRunning sets the running processes, and computes from them Open, EventsLost and Hosts. If
// several call a host, it has the figures of the one that prefetches least, and the largest OverQuota.
func (s *Stats) SetRunning(running []Status) {
	s.Running, s.Open, s.Hosts, s.Totals.EventsLost = running, 0, make(map[string]Host), 0
	for _, p := range running {
		for _, c := range p.Clients {
			s.Open += c.Sessions
		}
		s.Totals.EventsLost += p.Lost
		for name, h := range p.Hosts {
			other, known := s.Hosts[name]
			quota := max(h.OverQuota, other.OverQuota)
			if known && h.Level >= other.Level {
				h = other
			}
			h.OverQuota = quota
			s.Hosts[name] = h
		}
	}
}

// idle is the state of an upstream that no session needs. Its error is that of its last use.
const idle = "idle"

// Servers returns the upstreams of all running processes by name, with the sums of their memory and
// restarts. An upstream has one entry, that of a process with sessions that need it. If their errors
// differ, each error has an entry, and the name says in which folder.
func (s *Stats) Servers() []UpstreamStatus {
	all, dirs := []UpstreamStatus{}, []string{}
	for _, p := range s.Running {
		for _, u := range p.Upstreams {
			i := slices.IndexFunc(all, func(have UpstreamStatus) bool {
				return have.Name == u.Name && (have.Error == u.Error || have.State == idle || u.State == idle)
			})
			if i < 0 {
				all, dirs = append(all, u), append(dirs, p.Dir)
				continue
			}
			have := all[i]
			if have.State == idle && (u.State != idle || u.Error != "") || u.State == "ready" && have.State != "ready" {
				all[i], dirs[i] = u, p.Dir
			}
			all[i].MemoryKB, all[i].Restarts = have.MemoryKB+u.MemoryKB, have.Restarts+u.Restarts
		}
	}
	entries := make(map[string]int)
	for _, u := range all {
		entries[u.Name]++
	}
	for i, u := range all {
		if entries[u.Name] > 1 {
			all[i].Name += " in " + cmp.Or(dirs[i], "an unknown folder")
		}
	}
	slices.SortStableFunc(all, func(a, b UpstreamStatus) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// pool returns the sum of the running processes' pools.
func (s *Stats) pool() (sum PoolBudget) {
	for _, p := range s.Running {
		if p.Pool != nil {
			sum.Tokens, sum.Used = sum.Tokens+p.Pool.Tokens, sum.Used+p.Pool.Used
		}
	}
	return sum
}

const statusSuffix = ".status.json"

// readStatuses returns the statuses of the running processes, ordered by start. It skips files
// that it cannot read: the process is ending, or is of another version. A process without events
// writes no status, so the time that has passed since is subtracted from the cool-downs.
func readStatuses(dir string) (all []Status) {
	files, _ := allFiles(dir) // an unreadable folder counts as empty
	for _, f := range files {
		if !f.Running || !strings.HasSuffix(f.Path, statusSuffix) {
			continue
		}
		text, err := os.ReadFile(f.Path)
		var s Status
		if err == nil && json.Unmarshal(text, &s) == nil && s.Process == f.Process {
			passed := max(0, time.Since(f.Modified)) // negative if the clock was set back
			for name, h := range s.Hosts {
				h.CoolingMS = max(0, h.CoolingMS-float64(passed.Milliseconds()))
				s.Hosts[name] = h
			}
			all = append(all, s)
		}
	}
	return all
}
