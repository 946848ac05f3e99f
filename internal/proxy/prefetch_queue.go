package proxy

import (
	"sync"
	"time"
)

// prefetchQueue is what the prefetcher has still to look at. A goroutine of its own,
// which starts with the first task, works it off in order. What it is too slow for is
// left out, and counted.
type prefetchQueue struct {
	work func(do func()) // does one task
	keep func()          // keeps what was learned

	mu      sync.Mutex
	tasks   []task
	bytes   int           // that the tasks hold
	wake    chan struct{} // a token when there is a task, or no more will come
	urgent  bool          // an answer waits for one of the tasks
	ended   bool
	effort  effort
	excused time.Duration // of the task at hand: spent waiting for other processes
	done    chan struct{} // closed when the goroutine has ended; nil: it was never needed
	dropped drops
}

// task is one thing to do.
type task struct {
	bytes int // that it holds
	do    func()
}

// Bounds of the queue: what is in it is only worth something while it is fresh.
const (
	mostWaiting      = 2048
	mostWaitingBytes = 8 << 20
)

// effort is how much time the worker may take: a fortieth of one processor's. A model
// that reads what it gets needs far less. What calls faster than that is a program
// that leaves no time to fetch anything before it is asked for, and is left alone.
type effort struct {
	left time.Duration
	at   time.Time // up to which it was granted
}

const (
	effortShare = 40                     // one part in so many of the time
	mostEffort  = 500 * time.Millisecond // at once
)

// any reports whether there is some left.
func (e *effort) any(now time.Time) bool {
	if e.at.IsZero() {
		e.left = mostEffort
	}
	e.left = min(e.left+now.Sub(e.at)/effortShare, mostEffort)
	e.at = now
	return e.left > 0
}

// drops count what the worker was too slow for.
type drops struct {
	Calls   int64 `json:"calls"`   // that were not looked at
	Results int64 `json:"results"` // seen, and not read
}

// drops are the counts of what was left out so far.
func (q *prefetchQueue) drops() drops {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// hasTime reports whether there is time for one more call, and counts one for which
// there is none.
func (q *prefetchQueue) hasTime(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) < mostWaiting && q.effort.any(now) {
		return true
	}
	q.dropped.Calls++
	return false
}

// hasRoom reports whether n bytes of a result may wait to be read, and counts one that
// may not.
func (q *prefetchQueue) hasRoom(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+n <= mostWaitingBytes {
		return true
	}
	q.dropped.Results++
	return false
}

// enqueue adds a task that may be left out, and holds so many bytes. It never waits,
// and says whether the task will be done.
func (q *prefetchQueue) enqueue(bytes int, do func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) >= 2*mostWaiting { // the results of calls that were observed still find room
		q.dropped.Calls++
		return false
	}
	return q.addLocked(bytes, do)
}

// enqueueUrgent is enqueue for what an answer waits for.
func (q *prefetchQueue) enqueueUrgent(bytes int, do func()) bool {
	q.mu.Lock()
	q.urgent = true
	q.mu.Unlock()
	return q.enqueue(bytes, do)
}

// enqueueAlways is enqueue for what must not be left out; false: the queue has ended.
func (q *prefetchQueue) enqueueAlways(do func()) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.addLocked(0, do)
}

func (q *prefetchQueue) addLocked(bytes int, do func()) bool {
	if q.ended {
		return false
	}
	if q.done == nil {
		q.done = make(chan struct{})
		go q.run()
	}
	q.bytes += bytes
	q.tasks = append(q.tasks, task{bytes, do})
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// mergeEvery is how often what was learned is kept while there is no other
// occasion.
const mergeEvery = 5 * time.Minute

// run does the tasks until the queue has ended.
func (q *prefetchQueue) run() {
	defer close(q.done)
	keep := time.NewTicker(mergeEvery)
	defer keep.Stop()
	for {
		q.mu.Lock()
		tasks, ended := q.tasks, q.ended
		q.tasks, q.urgent = nil, false
		q.mu.Unlock()
		for _, t := range tasks {
			q.do(t)
		}
		switch {
		case len(tasks) > 0:
		case ended:
			q.keep()
			return
		default:
			q.await(keep.C)
		}
	}
}

// do does one task, and counts the time that it takes.
func (q *prefetchQueue) do(t task) {
	began := time.Now()
	q.work(t.do)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= t.bytes
	q.effort.left = max(q.effort.left-time.Since(began)+q.excused, -mostEffort)
	q.excused = 0
}

// excuse takes a time out of what the task at hand is counted with.
func (q *prefetchQueue) excuse(waited time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.excused += waited
}

// The worker lets what came last settle, so that it does not run in between when a
// client makes one call after the other.
const (
	lull     = time.Millisecond
	longLull = 20 * time.Millisecond
)

// await waits until there is a task and no more come for a moment, or an answer waits
// for it.
func (q *prefetchQueue) await(keep <-chan time.Time) {
	select {
	case <-q.wake:
	case <-keep:
		q.keep()
		return
	}
	for waited, before := time.Duration(0), -1; waited < longLull; waited += lull {
		q.mu.Lock()
		n, ended, urgent := len(q.tasks), q.ended, q.urgent
		q.mu.Unlock()
		if n == before || ended || urgent {
			break
		}
		before = n
		time.Sleep(lull)
	}
}

// save keeps what was learned so far, and returns when that is done.
func (q *prefetchQueue) save() {
	saved := make(chan struct{})
	q.mu.Lock()
	done := q.done
	if done != nil {
		q.urgent = true
		q.addLocked(0, func() { // a queue that has ended keeps all by itself
			q.keep()
			close(saved)
		})
	}
	q.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-saved:
	case <-done:
	}
}

// lastWait is how long the end waits for the worker: it may hang on a file that a
// dead server holds.
const lastWait = 10 * time.Second

// close has the tasks that are left done and what was learned kept, and reports
// whether that came to its end in time.
func (q *prefetchQueue) close() bool {
	q.mu.Lock()
	q.ended = true
	done := q.done
	q.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	late := time.NewTimer(lastWait)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
