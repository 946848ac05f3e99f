package speculate

import (
	"sync"
	"time"
)

// queue is what the worker has still to look at. A goroutine of its own, which starts with
// the first task, works it off in order. What it is too slow for is left out, and counted.
type queue struct {
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
	dropped Drops
}

// task is one thing to do.
type task struct {
	bytes  int  // that it holds
	urgent bool // an answer waits for it
	kept   bool // it must not be left out
	do     func()
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

// Drops count what the worker was too slow for.
type Drops struct {
	Calls   int64 `json:"calls"`   // that were not looked at
	Results int64 `json:"results"` // seen, and not read
}

func (q *queue) drops() Drops {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// hasTime reports whether there is time for one more call, and counts one for which
// there is none.
func (q *queue) hasTime(now time.Time) bool {
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
func (q *queue) hasRoom(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+n <= mostWaitingBytes {
		return true
	}
	q.dropped.Results++
	return false
}

// add adds a task. It never waits, and says whether the task will be done.
func (q *queue) add(t task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !t.kept && len(q.tasks) >= 2*mostWaiting { // the results of calls that were observed still find room
		q.dropped.Calls++
		return false
	}
	return q.addLocked(t)
}

func (q *queue) addLocked(t task) bool {
	if q.ended {
		return false
	}
	if q.done == nil {
		q.done = make(chan struct{})
		go q.run()
	}
	q.urgent = q.urgent || t.urgent
	q.bytes += t.bytes
	q.tasks = append(q.tasks, t)
	q.wakeUp()
	return true
}

func (q *queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// keepEvery is how often what was learned is kept while there is no other occasion.
const keepEvery = 5 * time.Minute

// run does the tasks until the queue has ended.
func (q *queue) run() {
	defer close(q.done)
	keep := time.NewTicker(keepEvery)
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
func (q *queue) do(t task) {
	began := time.Now()
	q.work(t.do)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= t.bytes
	q.effort.left = max(q.effort.left-time.Since(began)+q.excused, -mostEffort)
	q.excused = 0
}

// excuse takes a time out of what the task at hand is counted with.
func (q *queue) excuse(waited time.Duration) {
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
func (q *queue) await(keep <-chan time.Time) {
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
func (q *queue) save() {
	saved := make(chan struct{})
	q.mu.Lock()
	done := q.done
	if done != nil {
		q.addLocked(task{urgent: true, do: func() { // a queue that has ended keeps all by itself
			q.keep()
			close(saved)
		}})
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
func (q *queue) close() bool {
	q.mu.Lock()
	q.ended = true
	done := q.done
	q.mu.Unlock()
	if done == nil {
		return true
	}
	q.wakeUp()
	late := time.NewTimer(lastWait)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
