package speculate_test

import (
	"sync"
	"time"

	"mcpschedd/internal/speculate"
)

// runs are the calls under way, by the numbers that tests give them.
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

// cut is a call that is given up, and whose server does not say when it has done with it.
func cut(d *speculate.Scheduler, instance, id uint64, now time.Time) {
	if r, ok := runs.LoadAndDelete(runOf{d, instance, id}); ok {
		r.(*speculate.Run).Abandon(now)
	}
}
