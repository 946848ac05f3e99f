package bubble_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
)

// If bubbles ran with several processors, this test would almost always end the process under the
// race detector.
func TestTimersOfABubble(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 20 {
		bubble.Test(t, func(*testing.T) {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 100 {
						timers := make([]*time.Timer, 20)
						for i := range timers {
							timers[i] = time.NewTimer(time.Nanosecond)
						}
						time.Sleep(time.Microsecond)
						for _, timer := range timers {
							select {
							case <-timer.C:
							default:
								t.Error("the timer has not fired")
							}
						}
					}
				})
			}
			wg.Wait()
		})
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors after the bubbles, %d before", after, before)
	}
}
