package events

// queue is events in order, in blocks that are used again: to grow copies nothing,
// and a steady flow allocates nothing.
type queue struct {
	blocks []*block // the last one is being filled
	free   []*block
	length int   // events
	bytes  int64 // of their arguments
	pushed int64 // events so far
	popped int64 // of those
}

// block is so few events that whoever waits for one to be told of does not wait long.
type block struct {
	events [32]Event
	n      int
	bytes  int64
}

// maxFree is how many blocks wait to be used again: as many as are filled before the
// log wakes up, and as many again.
const maxFree = 2 * manyQueued / len(block{}.events)

func (q *queue) push(e *Event) {
	last := len(q.blocks) - 1
	if last < 0 || q.blocks[last].n == len(q.blocks[last].events) {
		q.blocks = append(q.blocks, q.take())
		last++
	}
	b := q.blocks[last]
	b.events[b.n] = *e
	b.n++
	b.bytes += int64(len(e.RawArguments))
	q.bytes += int64(len(e.RawArguments))
	q.length++
	q.pushed++
}

// full reports whether more waits than may.
func (q *queue) full() bool { return q.length > maxQueued || q.bytes > maxWaiting }

func (q *queue) take() *block {
	if n := len(q.free); n > 0 {
		b := q.free[n-1]
		q.free[n-1] = nil
		q.free = q.free[:n-1]
		return b
	}
	return new(block)
}

// pop takes the first block out, nil if there is none.
func (q *queue) pop() *block {
	if len(q.blocks) == 0 {
		return nil
	}
	b := q.blocks[0]
	q.blocks[0] = nil
	if q.blocks = q.blocks[1:]; len(q.blocks) == 0 {
		q.blocks = nil
	}
	q.length -= b.n
	q.bytes -= b.bytes
	q.popped += int64(b.n)
	return b
}

// giveBack takes an empty block for later.
func (q *queue) giveBack(b *block) {
	if len(q.free) < maxFree {
		q.free = append(q.free, b)
	}
}
