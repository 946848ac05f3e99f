package events

import "time"

// batch is lines on their way to the file.
type batch struct {
	lines   []byte
	last    bool          // the record ends behind them
	end     []byte        // with this line
	written chan struct{} // closed when they are, or cannot be
}

// tell tells of all events that are in the queue now.
func (l *Log) tell() {
	l.mu.Lock()
	pushed := l.queue.pushed
	l.mu.Unlock()
	for l.tellSome(pushed) {
	}
}

// tellSome tells of the first block in the queue; false if there is none, or if so
// many events as were pushed have been told of.
func (l *Log) tellSome(pushed int64) bool {
	l.telling.Lock()
	if !l.begun {
		l.begun = true
		begin := l.begin
		l.each(&begin)
	}
	var b *block
	l.mu.Lock()
	if l.queue.popped < pushed {
		b = l.queue.pop() // only here: who holds telling tells of the oldest
	}
	l.mu.Unlock()
	if b == nil {
		l.telling.Unlock()
		return false
	}
	for i := range b.events[:b.n] {
		l.say(&b.events[i])
	}
	if l.next != nil && len(l.next.lines) >= maxLine {
		l.startWriting() // there may be no end to the telling
	}
	l.telling.Unlock()
	clear(b.events[:b.n])
	b.n, b.bytes = 0, 0
	l.mu.Lock()
	l.queue.giveBack(b)
	l.mu.Unlock()
	return true
}

// say tells Each of an event and makes a line of it.
func (l *Log) say(e *Event) {
	e.Process = l.process
	written := l.file != nil && l.on
	if written {
		l.hash(e)
	}
	l.each(e)
	if !written {
		return
	}
	if l.ended {
		l.lost.Add(1)
		return
	}
	b := l.batch()
	before := len(b.lines)
	b.lines = append(Append(b.lines, e), '\n')
	if len(b.lines)-before > maxLine || len(b.lines) > maxPending {
		b.lines = b.lines[:before]
		l.lost.Add(1)
	}
}

// batch is the one that lines are added to. l.telling is held.
func (l *Log) batch() *batch {
	if l.next == nil {
		l.next = &batch{lines: l.spare[:0], written: make(chan struct{})}
		l.spare = nil
	}
	return l.next
}

// end says that the process has ended.
func (l *Log) end() {
	l.telling.Lock()
	defer l.telling.Unlock()
	e := Event{Kind: End, At: time.Now(), Process: l.process}
	l.each(&e)
	l.ended = true
	l.batch().last = true
	if l.on {
		l.batch().end = append(Append(nil, &e), '\n')
	}
}

// write has what is waiting written, by one goroutine that lives as long as there is
// something to write. It returns what is being written then, in order.
func (l *Log) write() []*batch {
	l.telling.Lock()
	defer l.telling.Unlock()
	if l.file == nil {
		l.next = nil
		return nil
	}
	if l.on && !l.shown {
		l.shown = true
		l.batch() // without a line, it makes the file: so others see that the process runs
	}
	var all []*batch
	if l.current != nil {
		all = append(all, l.current)
	}
	if l.next != nil {
		all = append(all, l.next)
	}
	l.startWriting()
	return all
}

// startWriting has lines written, unless others are. l.telling is held.
func (l *Log) startWriting() {
	if l.current == nil && l.next != nil {
		l.current, l.next = l.next, nil
		go l.writeAll(l.current)
	}
}

// writeAll writes a batch, and what has come meanwhile, until nothing has.
func (l *Log) writeAll(b *batch) {
	for b != nil {
		l.lost.Add(l.file.write(b.lines))
		if b.last {
			l.lost.Add(l.file.finish(b.end))
		}
		done := b.written
		l.telling.Lock()
		if cap(b.lines) <= maxLine {
			l.spare = b.lines
		}
		l.current, l.next = l.next, nil
		b = l.current
		l.telling.Unlock()
		close(done)
	}
}

// wait waits until batches are written, but not for a disk that hangs.
func (l *Log) wait(all []*batch) {
	if len(all) == 0 {
		return
	}
	timeout := time.NewTimer(l.patience)
	defer timeout.Stop()
	for _, b := range all {
		select {
		case <-b.written:
		case <-timeout.C:
			l.hung.Do(func() { l.logger.Warn("events: writing takes too long", "dir", l.file.dir, "waited", l.patience) })
			return
		}
	}
}
