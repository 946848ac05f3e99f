package plan

import "sync"

// workers make calls. A goroutine that has made one waits for the next: to make a call
// takes a deep stack, and to grow one for each call would take a tenth of a plan's time.
type workers struct {
	calls chan func()
	all   *sync.WaitGroup
}

func newWorkers() workers { return workers{make(chan func()), &sync.WaitGroup{}} }

// do has a call made, without waiting for it.
func (w workers) do(call func()) {
	select {
	case w.calls <- call:
	default:
		w.all.Go(func() {
			for more := true; more; call, more = <-w.calls {
				call()
			}
		})
	}
}

// end returns when the last call has.
func (w workers) end() {
	close(w.calls)
	w.all.Wait()
}
