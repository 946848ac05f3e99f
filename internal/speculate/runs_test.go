package speculate_test

import (
	"sync"
	"time"

	"mcpschedd/internal/speculate"
)

// runs are the calls in progress, by the tests' numbers.
var runs sync.Map // runOf → *speculate.Run

type runOf struct {
	d            *speculate.Scheduler
	instance, id uint64
}

func began(d *speculate.Scheduler, instance, id uint64, tool string, early bool, now time.Time) {
	runs.Store(runOf{d, instance, id}, d.Began(instance, tool, early, now))
}

func ended(d *speculate.Scheduler, instance, id uint64, now time.Time) (alone time.Duration) {
	if r, ok := runs.LoadAndDelete(runOf{d, instance, id}); ok {
		alone = r.(*speculate.Run).Ended(now)
	}
	return alone
}

// cut abandons a call.
func cut(d *speculate.Scheduler, instance, id uint64, now time.Time) {
	if r, ok := runs.LoadAndDelete(runOf{d, instance, id}); ok {
		r.(*speculate.Run).Abandon(now)
	}
}
