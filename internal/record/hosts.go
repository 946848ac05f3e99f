package record

// hosts is what each process says of each host that it calls. What ended processes did is
// kept under the process "".
type hosts map[hostKey]Host

type hostKey struct{ process, host string }

// mostHosts are told apart, over all processes.
const mostHosts = 1024

// set changes what a process says of a host; beyond the bound, of all others.
func (h hosts) set(process, host string, change func(*Host)) {
	key := hostKey{clean(process), clean(host)}
	if _, known := h[key]; !known && len(h) >= mostHosts {
		key = hostKey{"", other}
	}
	s := h[key]
	change(&s)
	s.Host = key.host
	h[key] = s
}

// state takes what a process says of a host at the moment.
func (h hosts) state(process string, now Host) {
	for _, n := range []*int{&now.Level, &now.InFlight, &now.Waiting, &now.Burst, &now.Concurrency, &now.Prefetches} {
		*n = int(count(int64(*n)))
	}
	now.Limited = count(now.Limited)
	now.Rate, now.Tokens, now.CoolingMS, now.HarmMS = amount(now.Rate), amount(now.Tokens), amount(now.CoolingMS), amount(now.HarmMS)
	h.set(process, now.Host, func(s *Host) { *s = now })
}

// ended keeps of a process said what holds on.
func (h hosts) ended(process string) {
	for key, s := range h {
		if key.process == process && process != "" {
			delete(h, key)
			s.InFlight, s.Waiting, s.Tokens, s.CoolingMS, s.Prefetches = 0, 0, 0, 0, 0
			h.set("", key.host, func(past *Host) { *past = together(*past, s) })
		}
	}
}

// all are the hosts by name: what processes did adds up, and the limits and the level are
// those of the processes that run, if any does.
func (h hosts) all() map[string]Host {
	all := make(map[string]Host)
	for key, s := range h {
		if key.process != "" {
			all[key.host] = together(all[key.host], s)
		}
	}
	for key, past := range h {
		if key.process != "" {
			continue
		}
		now, runs := all[key.host]
		if !runs {
			now = past
		} else {
			now.Limited += past.Limited
			now.HarmMS += past.HarmMS
		}
		all[key.host] = now
	}
	return all
}

// together is what two processes say of a host; the first may be none yet.
func together(a, b Host) Host {
	if a.Host == "" {
		return b
	}
	return Host{
		Host: a.Host, Level: min(a.Level, b.Level), InFlight: a.InFlight + b.InFlight, Waiting: a.Waiting + b.Waiting,
		Rate: max(a.Rate, b.Rate), Burst: max(a.Burst, b.Burst), Concurrency: max(a.Concurrency, b.Concurrency),
		Tokens: min(a.Tokens, b.Tokens), Limited: a.Limited + b.Limited, CoolingMS: max(a.CoolingMS, b.CoolingMS),
		Prefetches: a.Prefetches + b.Prefetches, HarmMS: a.HarmMS + b.HarmMS,
	}
}
