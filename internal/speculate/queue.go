package speculate

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// queue holds the worker's tasks. Its goroutine, which starts with the first task, runs them in
// order. Tasks beyond its limits are dropped.
type queue struct {
	work   func(do func()) // runs one task
	save   func(wait bool) // saves learned state; blocks if wait is set
	pace   *rate.Limiter   // of observed calls, and of the bytes of results
	wake   chan struct{}   // receives a token when there is a task
	urgent chan struct{}   // receives one when that task cannot wait for others

	bytes atomic.Int64 // held by the tasks

	mu    sync.Mutex
	tasks []task
	ended bool
	done  chan struct{} // closed when the goroutine has returned; nil if it was never started
}

// task is one event to handle.
type task struct {
	bytes    int  // held by it
	urgent   bool // an answer is waiting for it
	required bool // must not be dropped
	do       func()
}

// Limits of the queue. Its tasks are only useful while fresh. A client that calls faster leaves
// no time to prefetch, and is not observed.
const (
	maxTasks       = 2048
	maxQueuedBytes = 8 << 20
	callsPerSecond = 250 // a few per cent of a CPU
	callBurst      = 2000
	bytesPerCall   = 8 << 10 // of a result: reading that many costs about as much as a call
)

func newQueue(work func(do func()), save func(wait bool)) *queue {
	return &queue{
		work: work, save: save, pace: rate.NewLimiter(callsPerSecond, callBurst),
		wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
	}
}

// reserve reports whether n bytes of a result may be queued, and if so counts them against the pace.
func (q *queue) reserve(n int) bool {
	return q.bytes.Load()+int64(n) <= maxQueuedBytes && (n < bytesPerCall || q.pace.AllowN(time.Now(), n/bytesPerCall))
}

// addCall enqueues an observed call, unless there is no time for it, and reports whether it will run.
func (q *queue) addCall(t task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.tasks) < maxTasks && q.pace.Allow() && q.addLocked(t)
}

// add enqueues a task without blocking, and reports whether it will run.
func (q *queue) add(t task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.addLocked(t)
}

func (q *queue) addLocked(t task) bool {
	if q.ended || !t.required && len(q.tasks) >= 2*maxTasks { // twice, to leave space for the results of observed calls
		return false
	}
	if q.done == nil {
		q.done = make(chan struct{})
		go q.run()
	}
	q.bytes.Add(int64(t.bytes))
	q.tasks = append(q.tasks, t)
	notify(q.wake)
	if t.urgent {
		notify(q.urgent)
	}
	return true
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

const (
	saveInterval = 5 * time.Minute // how often learned state is saved

	// batchDelay is how long the worker waits for more tasks, unless an answer is waiting, so that
	// it does not run between the calls of a sequence.
	batchDelay = 5 * time.Millisecond
)

// run runs tasks until the queue has ended.
func (q *queue) run() {
	defer close(q.done)
	save := time.NewTicker(saveInterval)
	defer save.Stop()
	for {
		select {
		case <-q.urgent:
		case <-q.wake:
			select {
			case <-q.urgent:
			case <-time.After(batchDelay):
			}
		case <-save.C:
			q.save(false)
		}
		if ended := q.runTasks(); ended {
			q.save(true)
			return
		}
	}
}

// runTasks runs tasks until there is none, and reports whether there will be no more.
func (q *queue) runTasks() (ended bool) {
	for {
		q.mu.Lock()
		tasks, ended := q.tasks, q.ended
		q.tasks = nil
		q.mu.Unlock()
		if len(tasks) == 0 {
			return ended
		}
		for _, t := range tasks {
			q.work(t.do)
			q.bytes.Add(-int64(t.bytes))
		}
	}
}

// flush saves learned state after the queued tasks, and returns when that is done.
func (q *queue) flush() {
	q.mu.Lock()
	done := q.done
	q.mu.Unlock()
	if done == nil {
		return
	}
	saved := make(chan struct{})
	q.add(task{urgent: true, required: true, do: func() { // a queue that has ended saves by itself
		q.save(true)
		close(saved)
	}})
	select {
	case <-saved:
	case <-done:
	}
}

// closeTimeout is how long close waits for the worker, which may block on a file of a dead server.
const closeTimeout = 10 * time.Second

// close runs the remaining tasks and saves learned state, and reports whether that finished in
// time.
func (q *queue) close() bool {
	q.mu.Lock()
	q.ended = true
	done := q.done
	q.mu.Unlock()
	if done == nil {
		return true
	}
	notify(q.urgent)
	select {
	case <-done:
		return true
	case <-time.After(closeTimeout):
		return false
	}
}
