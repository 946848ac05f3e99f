package upstream

import (
	"slices"
	"sync"
)

// lane keeps the requests of one session to one server in the order in which
// they arrived, whatever each of them waits for before it can be sent. A request
// is sent once all before it have been, with one exception: while a read waits
// for its host's limit, reads for other hosts may go first. A write passes
// nothing, and nothing passes a write.
type lane struct {
	mu   sync.Mutex
	line []*place // of requests that have not been sent, in order of arrival
}

// Turn is one place in a lane. The zero Turn stands in none: nothing is ahead of
// it, and nothing waits for it.
type Turn struct{ *place }

// place is where a request stands. The mutex of the lane guards it.
type place struct {
	lane   *lane
	reads  bool          // the request is a read that asks for its turn; what is not known yet is not passed
	host   string        // if it is: the host whose limit it goes by
	yields bool          // if it is: it waits for that limit
	turned chan struct{} // closed when its turn has come; nil: it does not wait for that
	held   bool          // what is sent in it gives it up, and nothing else
	left   bool          // it has been sent, or will not be
}

func (l *lane) take() Turn {
	p := &place{lane: l}
	l.mu.Lock()
	l.line = append(l.line, p)
	l.mu.Unlock()
	return Turn{p}
}

// next yields the places whose turn has come, in order.
func (l *lane) next(yield func(*place) bool) {
	var limited []string // hosts for whose limits reads further ahead wait
	for i, p := range l.line {
		if i > 0 && !p.reads {
			return
		}
		if slices.Contains(limited, p.host) {
			continue // behind a read of the same host, which is to be sent first
		}
		if !yield(p) || !p.yields {
			return
		}
		limited = append(limited, p.host)
	}
}

// turnLocked tells those in line whose turn has come.
func (l *lane) turnLocked() {
	for p := range l.next {
		if p.turned != nil {
			close(p.turned)
			p.turned = nil
		}
	}
}

// ask returns nil if req may be sent now, else a channel that is closed when it
// may be, unless its turn is lost again by then: ask once more.
func (t Turn) ask(req *Request) <-chan struct{} {
	p := t.place
	if p == nil {
		return nil
	}
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.left {
		return nil // it is sent once more
	}
	if p.reads != req.Reads || p.host != req.Host {
		p.reads, p.host = req.Reads, req.Host
		l.turnLocked() // others may pass it now
	}
	for q := range l.next {
		if q == p {
			return nil
		}
	}
	if p.turned == nil {
		p.turned = make(chan struct{})
	}
	return p.turned
}

// waits notes whether the request, whose turn has come, waits for the limit of its
// host. If it is a read, reads for other hosts are sent meanwhile.
func (t Turn) waits(yields bool) {
	p := t.place
	if p == nil {
		return
	}
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.yields = yields && p.reads
	p.lane.turnLocked()
}

// Follow says that the request, a read, is to be answered by another that waits for
// the limit of a host and stands in no lane: its place is kept until that has been
// sent, and reads for other hosts are sent meanwhile.
func (t Turn) Follow(host string) {
	p := t.place
	if p == nil {
		return
	}
	p.lane.mu.Lock()
	defer p.lane.mu.Unlock()
	p.reads, p.host, p.yields = true, host, true
	p.lane.turnLocked()
}

// Again returns the turn of a request that another was to answer and that is sent
// after all: its own if it has kept that, held, else the next. The zero Turn has no
// other.
func (t Turn) Again() Turn {
	p := t.place
	if p == nil {
		return t
	}
	p.lane.mu.Lock()
	left := p.left
	p.held = true
	p.lane.mu.Unlock()
	if left {
		return p.lane.take()
	}
	return t
}

// Hold keeps the place for a request that will be sent in it and may outlive its
// caller: Leave does nothing any more.
func (t Turn) Hold() {
	if p := t.place; p != nil {
		p.lane.mu.Lock()
		p.held = true
		p.lane.mu.Unlock()
	}
}

// Leave gives up the place, if no request is sent in it. It may be called again, and
// on the zero Turn.
func (t Turn) Leave() { t.leave(false) }

// leave gives up the place, one that is held only for the request that is sent in it.
func (t Turn) leave(sent bool) {
	p := t.place
	if p == nil {
		return
	}
	l := p.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.left || p.held && !sent {
		return
	}
	p.left = true
	i := slices.Index(l.line, p)
	l.line = slices.Delete(l.line, i, i+1)
	l.turnLocked()
}
