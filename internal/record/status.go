package record

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Status is how one process stands. While it runs, a file beside its log says so to other
// processes, also with events off; it holds no argument, no answer and no secret. It has more
// than 15 fields because it is a file format.
type Status struct {
	Process     string           `json:"process" jsonschema:"Its name in the record."`
	PID         int              `json:"pid" jsonschema:"Of the process."`
	Since       string           `json:"since" jsonschema:"When it began (RFC 3339)."`
	Updated     string           `json:"updated" jsonschema:"When this was written (RFC 3339)."`
	Program     string           `json:"program" jsonschema:"Its version."`
	Transport   string           `json:"transport" jsonschema:"stdio, http, or daemon: one of its workplaces."`
	Dir         string           `json:"dir" jsonschema:"Its working directory."`
	Config      string           `json:"config" jsonschema:"Path of the configuration; empty: the built-in defaults."`
	ConfigError string           `json:"config_error,omitempty" jsonschema:"Why a newer one is not in force."`
	MemoryKB    int64            `json:"memory_kb,omitempty" jsonschema:"Resident memory in KiB, where the system tells; one workplace of a daemon tells it for all."`
	Upstreams   []UpstreamStatus `json:"upstreams" jsonschema:"How its upstreams stand, in the order of the configuration."`
	Clients     []ClientStatus   `json:"clients" jsonschema:"Open sessions, by client and folder."`
	Hosts       []Host           `json:"hosts,omitempty" jsonschema:"What the hosts that it calls allow."`
	Pinned      []PinnedTool     `json:"pinned,omitempty" jsonschema:"Tools that are listed although tools are searched for, because of how they are used."`
	Budgets     *BudgetStatus    `json:"budgets,omitempty" jsonschema:"What answers have used of the budgets of tokens, where there are any."`
	Lost        int64            `json:"events_lost,omitempty" jsonschema:"Lines of the record that it could not write."`
}

// Daemon is the transport of clients that start connect: of what one process serves, each
// workplace has a status of its own.
const Daemon = "daemon"

// UpstreamStatus is how an upstream stands.
type UpstreamStatus struct {
	Name         string `json:"name" jsonschema:"As the configuration names it."`
	State        string `json:"state" jsonschema:"idle (no session needs it), starting, ready or down."`
	Since        string `json:"since,omitempty" jsonschema:"When that began (RFC 3339)."`
	Error        string `json:"error,omitempty" jsonschema:"What ended its last connection, or kept one from being made."`
	Restarts     int64  `json:"restarts,omitempty" jsonschema:"How often it was started again."`
	MemoryKB     int64  `json:"memory_kb,omitempty" jsonschema:"Resident memory of its processes in KiB, where the system tells."`
	Tools        int    `json:"tools" jsonschema:"Tools that it offers to clients."`
	Cacheable    int    `json:"cacheable" jsonschema:"Of those, tools whose answers may be stored."`
	Prefetchable int    `json:"prefetchable" jsonschema:"Of those, tools that may be called early."`
	Why          string `json:"why,omitempty" jsonschema:"Why not more of them are."`
	Change       string `json:"change,omitempty" jsonschema:"The line of the configuration that would change it, and when it may be written."`
}

// PinnedTool is a tool that is listed because of how it is used.
type PinnedTool struct {
	Tool string `json:"tool" jsonschema:"upstream/tool."`
	Why  string `json:"why" jsonschema:"What speaks for it."`
}

// BudgetStatus is what answers have used of the budgets of tokens, all estimated.
type BudgetStatus struct {
	Sessions []SessionBudget `json:"sessions" jsonschema:"Open sessions that were given something."`
	Pool     *PoolBudget     `json:"pool,omitempty" jsonschema:"What all sessions share, where they do; one workplace of a daemon tells it for all."`
}

// SessionBudget is what one session has used.
type SessionBudget struct {
	Session string `json:"session" jsonschema:"Its name in the record."`
	Client  string `json:"client" jsonschema:"Name and version, as it says."`
	Used    int64  `json:"used" jsonschema:"Tokens of the answers that it was given."`
	Left    *int64 `json:"left,omitempty" jsonschema:"Tokens until its nearest bound; absent: nothing bounds it."`
}

// PoolBudget is what all sessions share in a window.
type PoolBudget struct {
	Tokens int64 `json:"tokens" jsonschema:"Tokens of a window." prom:"budget_pool_tokens"`
	Used   int64 `json:"used" jsonschema:"Tokens of this window that were given." prom:"budget_pool_used_tokens"`
	LeftS  int64 `json:"left_s" jsonschema:"Seconds that the window has to go."`
}

// ClientStatus is the open sessions of one client in one folder.
type ClientStatus struct {
	Client   string `json:"client" jsonschema:"Name and version, as it says."`
	Dir      string `json:"dir,omitempty" jsonschema:"Where it works, where that is known."`
	Sessions int    `json:"sessions" jsonschema:"How many are open."`
}

// SetRunning adds how the running processes stand, the lines that they lost, and what hosts allow
// over all of them: what they do there adds up, and of limits and levels the narrowest holds.
func (s *Stats) SetRunning(running []Status) {
	s.Running, s.Hosts, s.Totals.EventsLost = running, make(map[string]Host), 0
	for _, p := range running {
		s.Totals.EventsLost += p.Lost
		for _, b := range p.Hosts {
			a, known := s.Hosts[b.Host]
			if !known {
				a.Level, a.Tokens = b.Level, b.Tokens
			}
			s.Hosts[b.Host] = Host{
				Host: b.Host, Level: min(a.Level, b.Level), InFlight: a.InFlight + b.InFlight, Waiting: a.Waiting + b.Waiting,
				Rate: max(a.Rate, b.Rate), Burst: max(a.Burst, b.Burst), Concurrency: max(a.Concurrency, b.Concurrency),
				Tokens: min(a.Tokens, b.Tokens), Limited: a.Limited + b.Limited, CoolingMS: max(a.CoolingMS, b.CoolingMS),
				Prefetches: a.Prefetches + b.Prefetches, HarmMS: a.HarmMS + b.HarmMS,
			}
		}
	}
}

// pool adds up the pools of the running processes.
func (s *Stats) pool() (sum PoolBudget) {
	for _, p := range s.Running {
		if p.Budgets != nil && p.Budgets.Pool != nil {
			sum.Tokens, sum.Used = sum.Tokens+p.Budgets.Pool.Tokens, sum.Used+p.Budgets.Pool.Used
		}
	}
	return sum
}

const (
	statusSuffix = ".status.json"
	maxStatus    = 4 << 20 // bytes of a file that is read
)

func statusPath(dir, process string) string { return filepath.Join(dir, process+statusSuffix) }

// FormatTime is a time as a status has it; "" where it is not known.
func FormatTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// ReadStatuses are those of the processes that run, in the order in which they began. What
// cannot be read is left out: the process is ending, or it is of another version.
func ReadStatuses(dir string) (all []Status) {
	entries, _ := os.ReadDir(dir) // where nothing can be listed nothing is told
	for _, entry := range entries {
		process, is := strings.CutSuffix(entry.Name(), statusSuffix)
		path := statusPath(dir, process)
		if info, ok := regular(path); !is || !ok || info.Size() > maxStatus || !running(dir, process) {
			continue
		}
		text, err := os.ReadFile(path)
		var s Status
		if err == nil && json.Unmarshal(text, &s) == nil && s.Process == process {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Process, b.Process) })
	return all
}
