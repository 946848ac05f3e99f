// Package bubble runs tests in synctest bubbles, where time is fake.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// running counts the bubbles running under the race detector. processors is the GOMAXPROCS to
// restore after the last one.
var running struct {
	sync.Mutex
	bubbles, processors int
}

// Test calls [synctest.Test]. Under the race detector it sets GOMAXPROCS to 1 while f runs: if two
// processors access timer channels of a bubble at once, the detector's memory is corrupted and
// the process crashes (https://github.com/golang/go/issues/78156, in Go 1.26). Races are still
// found, because the detector checks how accesses are ordered, not whether they overlap.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	if raceDetector {
		running.Lock()
		if running.bubbles++; running.bubbles == 1 {
			running.processors = runtime.GOMAXPROCS(1)
		}
		running.Unlock()
		defer func() {
			running.Lock()
			defer running.Unlock()
			if running.bubbles--; running.bubbles == 0 {
				runtime.GOMAXPROCS(running.processors)
			}
		}()
	}
	synctest.Test(t, f)
}
