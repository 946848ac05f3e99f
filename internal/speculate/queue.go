package speculate

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// queue is what the worker has still to look at. A goroutine of its own, which starts with
// the first task, works it off in order. What is too much is left out, and counted.
type queue struct {
	work        func(do func()) // does one task
	saveLearned func(wait bool) // keeps what was learned, and may wait for that
	pace        *rate.Limiter

	mu      sync.Mutex
	tasks   []task
	bytes   int           // that the tasks hold
	wake    chan struct{} // a token when there is a task, or no more will come
	urgent  bool          // an answer waits for one of the tasks
	ended   bool
	done    chan struct{} // closed when the goroutine has ended; nil: it was never needed
	dropped Drops
}

// task is one thing to do.
type task struct {
	bytes    int  // that it holds
	urgent   bool // an answer waits for it
	required bool // it must not be left out
	do       func()
}

// Bounds of the queue: what is in it is only worth something while it is fresh. What calls
// faster than that is a program that leaves no time to fetch anything before it is asked
// for, and is left alone.
const (
	maxTasks       = 2048
	maxQueuedBytes = 8 << 20
	callsPerSecond = 250 // a few hundredths of a processor
	callBurst      = 2000
	bytesPerCall   = 8 << 10 // of a result: to read that costs about as much as to look at a call
)

// Drops count what the worker was too slow for.
type Drops struct {
	Calls   int64 `json:"calls"`   // that were not looked at
	Results int64 `json:"results"` // seen, and not read
}

func newQueue(work func(do func()), keep func(wait bool)) queue {
	return queue{work: work, saveLearned: keep, pace: rate.NewLimiter(callsPerSecond, callBurst), wake: make(chan struct{}, 1)}
}

// hasTime reports whether there is time for one more call, and counts one for which
// there is none.
func (q *queue) hasTime(now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) < maxTasks && q.pace.AllowN(now, 1) {
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
	if q.bytes+n <= maxQueuedBytes && q.pace.AllowN(time.Now(), n/bytesPerCall) {
		return true
	}
	q.dropped.Results++
	return false
}

// add adds a task. It never waits, and says whether the task will be done.
func (q *queue) add(t task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ended:
		return false
	case !t.required && len(q.tasks) >= 2*maxTasks: // the results of calls that were observed still find room
		q.dropped.Calls++
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
const saveInterval = 5 * time.Minute

// run does the tasks until the queue has ended.
func (q *queue) run() {
	defer close(q.done)
	keep := time.NewTicker(saveInterval)
	defer keep.Stop()
	for {
		q.mu.Lock()
		tasks, ended := q.tasks, q.ended
		q.tasks, q.urgent = nil, false
		q.mu.Unlock()
		for _, t := range tasks {
			q.work(t.do)
			q.mu.Lock()
			q.bytes -= t.bytes
			q.mu.Unlock()
		}
		if len(tasks) > 0 {
			continue
		}
		if ended {
			q.saveLearned(true)
			return
		}
		select {
		case <-q.wake:
			q.collect()
		case <-keep.C:
			q.saveLearned(false)
		}
	}
}

// lull is how long the worker lets more come, unless an answer waits for it: it does not run
// in between when a client makes one call after the other.
const batchDelay = 5 * time.Millisecond

func (q *queue) collect() {
	over := time.NewTimer(batchDelay)
	defer over.Stop()
	for {
		q.mu.Lock()
		now := q.urgent || q.ended
		q.mu.Unlock()
		if now {
			return
		}
		select {
		case <-q.wake:
		case <-over.C:
			return
		}
	}
}

// save keeps what was learned so far, and returns when that is done.
func (q *queue) save() {
	q.mu.Lock()
	done := q.done
	q.mu.Unlock()
	if done == nil {
		return
	}
	saved := make(chan struct{})
	q.add(task{urgent: true, required: true, do: func() { // a queue that has ended keeps all by itself
		q.saveLearned(true)
		close(saved)
	}})
	select {
	case <-saved:
	case <-done:
	}
}

// lastWait is how long the end waits for the worker: it may hang on a file that a
// dead server holds.
const closeTimeout = 10 * time.Second

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
	late := time.NewTimer(closeTimeout)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}
