package record

import "strings"

// processes are those of which there are events.
type processes struct {
	running     map[string]string // process that has not ended → where its client works, where that is known
	n           int               // that there have been
	first, last int64             // event, in microseconds; 0: none had a time
}

// saw takes note of an event.
func (l *processes) saw(e *Event) {
	if at := micros(e.At); at > 0 {
		if l.first == 0 || at < l.first {
			l.first = at
		}
		l.last = max(l.last, at)
	}
	if _, known := l.running[e.Process]; !known {
		if len(l.running) >= mostProcesses { // of those that were killed there may be no end
			clear(l.running)
		}
		l.n++
		l.running[strings.Clone(e.Process)] = ""
	}
	if e.Kind == Begin && (e.Transport == "stdio" || e.Transport == Daemon) {
		l.running[strings.Clone(e.Process)] = e.Dir
	}
}

// up is for how many seconds there were events, until now if a process runs.
func (l *processes) up(now int64) int64 {
	last := l.last
	if len(l.running) > 0 {
		last = max(last, now)
	}
	return (last - l.first) / second
}
