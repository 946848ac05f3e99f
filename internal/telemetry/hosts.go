package telemetry

import "mcpschedd/internal/events"

// hosts is what each process says of each host that it calls.
type hosts map[hostOf]*Host

type hostOf struct{ process, host string }

func newHosts() hosts { return make(hosts) }

// at is what a process says of a host; beyond the bound, of all others.
func (h hosts) at(process, host string) *Host {
	if known, ok := h[hostOf{process, host}]; ok {
		return known
	}
	key := hostOf{clean(process), clean(host)}
	if len(h) >= mostHosts {
		key = hostOf{"", other}
	}
	if h[key] == nil {
		h[key] = &Host{Host: key.host}
	}
	return h[key]
}

func (h hosts) state(process string, s *events.Host) {
	at := h.at(process, s.Host)
	name := at.Host
	*at = tidy(*s)
	at.Host = name
}

// tidy makes numbers of a host such that they can be shown.
func tidy(s Host) Host {
	s.Rate, s.Tokens, s.CoolingMS, s.HarmMS = ms(s.Rate), ms(s.Tokens), ms(s.CoolingMS), ms(s.HarmMS)
	return s
}

func (h hosts) level(process, host string, to int) { h.at(process, host).Level = to }

// ended keeps of what a process said what holds on: what it did, and the levels it
// had come to where no other process says anything.
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

// all are the hosts by name, those of several processes together: what they did adds
// up, and the level is the lowest of those that run.
func (h hosts) all() map[string]Host {
	all := make(map[string]Host)
	for key, s := range h {
		if key.process != "" {
			all[key.host] = both(all[key.host], *s)
		}
	}
	for key, s := range h {
		if key.process != "" {
			continue
		}
		if running, ok := all[key.host]; ok {
			running.Limited += s.Limited
			running.HarmMS += s.HarmMS
			all[key.host] = running
		} else {
			all[key.host] = *s
		}
	}
	return all
}

// both is what two processes say of a host; that a has no name says that there is
// none yet.
func both(a, b Host) Host {
	if a.Host == "" {
		return b
	}
	a.Level = min(a.Level, b.Level)
	a.InFlight += b.InFlight
	a.Waiting += b.Waiting
	a.Rate = max(a.Rate, b.Rate)
	a.Burst = max(a.Burst, b.Burst)
	a.Concurrency = max(a.Concurrency, b.Concurrency)
	a.Tokens = min(a.Tokens, b.Tokens)
	a.Limited += b.Limited
	a.CoolingMS = max(a.CoolingMS, b.CoolingMS)
	a.Guesses += b.Guesses
	a.HarmMS += b.HarmMS
	return a
}
