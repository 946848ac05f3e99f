// Package bubble runs tests in synctest's bubbles of fake time.
package bubble

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// running counts the bubbles that run now under the race detector; processors is the
// GOMAXPROCS to go back to after the last of them.
var running struct {
	sync.Mutex
	bubbles, processors int
}

// Test is [synctest.Test]. Under the race detector nothing runs in parallel with f: two timer
// channels of a bubble that are looked at on two processors at once corrupt the detector's
// memory, which ends the process with a fault in its code
// (https://github.com/golang/go/issues/78156, in Go 1.26). Races are still found: the detector
// goes by what orders two accesses, not by whether they met.
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
