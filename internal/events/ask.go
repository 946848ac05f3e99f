package events

// pending is an event whose end is not known yet.
type pending struct {
	event Event
	known func(*Event) bool
}

// open are the events whose end is not known, in the order in which they were added.
type open struct {
	all   []pending
	bytes int64 // of their arguments
}

// maxOpen bounds how many ends may be unknown at once.
const maxOpen = 1 << 14

func (o *open) push(p *pending) {
	o.all = append(o.all, *p)
	o.bytes += int64(len(p.event.RawArguments))
}

// take takes all of them.
func (o *open) take() []pending {
	all := o.all
	*o = open{}
	return all
}

// putBack puts those back that are still open, before what was added since.
func (o *open) putBack(still []pending) {
	since := o.take()
	o.all = append(still, since...)
	for i := range o.all {
		o.bytes += int64(len(o.all[i].event.RawArguments))
	}
}

// excess takes the oldest one out; nil if there are no more than there may be.
func (o *open) excess() *pending {
	if len(o.all) <= maxOpen && o.bytes <= maxWaiting {
		return nil
	}
	p := o.all[0]
	o.all[0] = pending{}
	o.all = o.all[1:]
	o.bytes -= int64(len(p.event.RawArguments))
	return &p
}

// trim gives memory back that is not used.
func (o *open) trim() {
	if len(o.all) < cap(o.all)/2 {
		o.all = append([]pending(nil), o.all...)
	}
}

// AddWhen hands an event over whose end is not known yet: known fills it in, and
// reports whether that is so. It is asked at each Flush and Ask, whenever other events
// are told of, and a last time at Close; an event that is still open then was Wasted,
// as nobody asked for it, and so is the oldest where more than 16,384 are open, or
// those with more than 8 MiB of arguments. It may add events, but neither flush the
// log nor ask it.
func (l *Log) AddWhen(e Event, known func(e *Event) bool) {
	p := pending{e, known}
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.open.push(&p)
	}
	l.mu.Unlock()
	if closed {
		settle(&p)
		l.Add(p.event)
	}
	l.settleExcess()
}

// settleExcess gives the oldest events an end as long as too many are open.
func (l *Log) settleExcess() {
	for {
		l.mu.Lock()
		p := l.open.excess()
		l.mu.Unlock()
		if p == nil {
			return
		}
		settle(p)
		l.Add(p.event)
	}
}

// settle gives an event its end.
func settle(p *pending) {
	if !p.known(&p.event) {
		p.event.Fate, p.event.Cause = Wasted, "never_asked"
	}
}

// Ask asks for the ends of all events that were added without one, so that those that
// have one by now come before what is added next.
func (l *Log) Ask() { l.ask(false) }

// ask asks for the ends of events, and queues those that have one. The last time all
// do.
func (l *Log) ask(last bool) {
	l.asking.Lock()
	defer l.asking.Unlock()
	l.mu.Lock()
	open := l.open.take()
	l.mu.Unlock()
	still := open[:0]
	for i := range open {
		p := &open[i]
		switch {
		case last:
			settle(p)
		case !p.known(&p.event):
			still = append(still, *p)
			continue
		}
		l.mu.Lock()
		l.queue.push(&p.event)
		l.mu.Unlock()
	}
	clear(open[len(still):])
	l.mu.Lock()
	l.open.putBack(still)
	l.mu.Unlock()
	l.settleExcess() // known may have added some
}
