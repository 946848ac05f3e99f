package record

import "strings"

// processes tracks the processes that the events belong to.
type processes struct {
	running     map[string]string // process that has not ended → working directory of its client, if known
	n           int               // processes so far, ended ones included
	first, last int64             // times of the first and last event, in microseconds; 0 if none had a time
}

// observe takes note of an event's process and time.
func (l *processes) observe(e *Event) {
	if at := micros(e.At); at > 0 {
		if l.first == 0 || at < l.first {
			l.first = at
		}
		l.last = max(l.last, at)
	}
	if _, known := l.running[e.Process]; !known {
		if len(l.running) >= maxProcesses { // killed processes may have no end event
			clear(l.running)
		}
		l.n++
		l.running[strings.Clone(e.Process)] = ""
	}
	if e.Kind == Begin && (e.Transport == "stdio" || e.Transport == Daemon) {
		l.running[strings.Clone(e.Process)] = e.Dir
	}
}

// uptime returns the seconds from the first event to the last, or to now if a process runs.
func (l *processes) uptime(now int64) int64 {
	last := l.last
	if len(l.running) > 0 {
		last = max(last, now)
	}
	return (last - l.first) / second
}
