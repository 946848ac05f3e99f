package telemetry

import "mcpschedd/internal/events"

// mostProcesses are kept that have not ended: those that were killed never do.
const mostProcesses = 1024

// process is one that writes events.
type process struct {
	name        string
	first, last int64 // microseconds: of its events; 0: none had a time
}

// processes are those that run, as far as is known.
type processes struct {
	running map[string]*process
	n       int64   // that there have been
	ended   float64 // microseconds that those no more running took together: wrong clocks make more of them than an integer holds
	last    int64   // microseconds: of the events of those
}

func newProcesses() processes { return processes{running: make(map[string]*process)} }

// process is that of an event; s is its session.
func (t *Tally) process(e *events.Event, s *session) *process {
	if s != nil && s.process != nil && s.process.name == e.Process {
		return s.process
	}
	p, ok := t.processes.running[e.Process]
	if !ok {
		p = t.processes.named(clean(e.Process))
	}
	if s != nil && s.process == nil {
		s.process = p
	}
	return p
}

func (l *processes) named(name string) *process {
	if p, ok := l.running[name]; ok {
		return p
	}
	if len(l.running) >= mostProcesses {
		l.drop(l.oldest())
	}
	p := &process{name: name}
	l.running[name] = p
	l.n++
	return p
}

// oldest is the one of which nothing has been heard for longest.
func (l *processes) oldest() *process {
	var oldest *process
	for _, p := range l.running {
		if oldest == nil || p.last < oldest.last {
			oldest = p
		}
	}
	return oldest
}

func (l *processes) drop(p *process) {
	l.ended += float64(p.last - p.first)
	l.last = max(l.last, p.last)
	delete(l.running, p.name)
}

// end takes note that a process is no more.
func (l *processes) end(p *process) {
	if l.running[p.name] == p {
		l.drop(p)
	}
}

// latest is the time of the last event, in microseconds.
func (l *processes) latest() int64 {
	latest := l.last
	for _, p := range l.running {
		latest = max(latest, p.last)
	}
	return latest
}

// saw moves the time of a process to the end of what an event tells of.
func (p *process) saw(e *events.Event) {
	from := micros(e.At)
	if from == 0 {
		return
	}
	if p.first == 0 || from < p.first {
		p.first = from
	}
	p.last = max(p.last, end(e))
}

// end is when what an event tells of was over; 0: not known.
func end(e *events.Event) int64 {
	at := micros(e.At)
	if at == 0 {
		return 0
	}
	switch e.Kind {
	case events.Call, events.Prefetch, events.Plan: // of others LatencyMS is no time since At
		return at + int64(ms(e.LatencyMS)*1e3)
	}
	return at
}

// up is for how many seconds processes ran, those that run until now.
func (l *processes) up(now int64) int64 {
	all := l.ended
	for _, p := range l.running {
		if p.first > 0 {
			all += float64(max(now, p.last) - p.first)
		}
	}
	return int64(all / second)
}
