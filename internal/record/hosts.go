package record

// hosts is what each process says of each host that it calls. What ended processes did is
// kept under the process "".
type hosts map[hostKey]*Host

type hostKey struct{ process, host string }

// mostHosts are told apart, over all processes.
const mostHosts = 1024

// at is what a process says of a host; beyond the bound, of all others.
func (h hosts) at(process, host string) *Host {
	key := hostKey{clean(process), clean(host)}
	if h[key] == nil && len(h) >= mostHosts {
		key = hostKey{"", other}
	}
	if h[key] == nil {
		h[key] = &Host{Host: key.host}
	}
	return h[key]
}

// state takes what a process says of a host at the moment.
func (h hosts) state(process string, s Host) {
	at := h.at(process, s.Host)
	s.Host = at.Host
	for _, n := range []*int{&s.Level, &s.InFlight, &s.Waiting, &s.Burst, &s.Concurrency, &s.Guesses} {
		*n = int(count(int64(*n)))
	}
	s.Limited = count(s.Limited)
	s.Rate, s.Tokens, s.CoolingMS, s.HarmMS = amount(s.Rate), amount(s.Tokens), amount(s.CoolingMS), amount(s.HarmMS)
	*at = s
}

// ended keeps of what a process said what holds on.
func (h hosts) ended(process string) {
	for key, s := range h {
		if key.process != process || process == "" {
			continue
		}
		delete(h, key)
		past := h.at("", key.host)
		past.Level = s.Level
		past.Rate, past.Burst, past.Concurrency = s.Rate, s.Burst, s.Concurrency
		past.Limited += s.Limited
		past.HarmMS += s.HarmMS
	}
}

// all are the hosts by name: what processes did adds up, and the limits and the level are
// those of the processes that run, if any does.
func (h hosts) all() map[string]Host {
	all := make(map[string]Host)
	for key, s := range h {
		if key.process != "" {
			all[key.host] = together(all[key.host], *s)
		}
	}
	for key, s := range h {
		if key.process != "" {
			continue
		}
		running, runs := all[key.host]
		if !runs {
			running = *s
		} else {
			running.Limited += s.Limited
			running.HarmMS += s.HarmMS
		}
		all[key.host] = running
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
		Guesses: a.Guesses + b.Guesses, HarmMS: a.HarmMS + b.HarmMS,
	}
}
