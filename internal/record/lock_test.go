package record

import (
	"sync"
	"testing"
)

// A process that starts or ends while others remove leftovers counts as running as long as it
// holds its lock.
func TestSweepLeavesTheRunning(t *testing.T) {
	dir, process := t.TempDir(), "20260101T000000-1-0000abcd"
	over := make(chan struct{})
	var tidying sync.WaitGroup
	for range 3 {
		tidying.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if !isRunning(dir, process) {
					removeLeftovers(dir, process)
				}
			}
		})
	}
	for i := range 120 {
		var lock processLock
		if err := lock.acquire(dir, process); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if !isRunning(dir, process) {
				t.Errorf("time %d: the process holds its lock, and counts as ended", i)
				break
			}
		}
		lock.release()
	}
	close(over)
	tidying.Wait()
}
