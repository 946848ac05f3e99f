package record

import "strings"

// processes are those of which there are events.
type processes struct {
	running     map[string]hosts // process → what it says of hosts
	n           int              // that there have been
	first, last int64            // event, in microseconds; 0: none had a time
}

// hosts is what one process says of hosts, by name.
type hosts map[string]Host

// saw takes note of an event, and returns what its process says of hosts.
func (l *processes) saw(e *Event) hosts {
	if at := micros(e.At); at > 0 {
		if l.first == 0 || at < l.first {
			l.first = at
		}
		l.last = max(l.last, at)
	}
	if now, runs := l.running[e.Process]; runs {
		return now
	}
	if len(l.running) >= mostProcesses { // of those that were killed there may be no end
		clear(l.running)
	}
	l.n++
	now := make(hosts)
	l.running[strings.Clone(e.Process)] = now
	return now
}

// up is for how many seconds there were events, until now if a process runs.
func (l *processes) up(now int64) int64 {
	last := l.last
	if len(l.running) > 0 {
		last = max(last, now)
	}
	return (last - l.first) / second
}

// set takes what a process says of a host.
func (h hosts) set(now Host) {
	now.Host = within(h, mostHosts, now.Host)
	h[now.Host] = now
}

// hosts are those of all processes that run: what they do adds up, and of limits and levels
// the narrowest holds.
func (l *processes) hosts() map[string]Host {
	all := make(map[string]Host)
	for _, of := range l.running {
		for _, b := range of {
			name := within(all, mostHosts+1, b.Host)
			a, known := all[name]
			if !known {
				a.Level, a.Tokens = b.Level, b.Tokens
			}
			all[name] = Host{
				Host: name, Level: min(a.Level, b.Level), InFlight: a.InFlight + b.InFlight, Waiting: a.Waiting + b.Waiting,
				Rate: max(a.Rate, b.Rate), Burst: max(a.Burst, b.Burst), Concurrency: max(a.Concurrency, b.Concurrency),
				Tokens: min(a.Tokens, b.Tokens), Limited: a.Limited + b.Limited, CoolingMS: max(a.CoolingMS, b.CoolingMS),
				Prefetches: a.Prefetches + b.Prefetches, HarmMS: a.HarmMS + b.HarmMS,
			}
		}
	}
	return all
}
