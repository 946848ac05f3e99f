//go:build !race

package proxy_test

import (
	"runtime"
	"testing"
)

// A call passes through without memory of the size of its answer.
func TestCallAllocatesAlikeForAnySize(t *testing.T) {
	c := dial(t)
	perCall := func(size int) uint64 {
		line := bigCall(size)
		const calls = 300
		c.ask(t, line) // the buffers of this size
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			c.ask(t, line)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / calls
	}
	small := perCall(1 << 10)
	// A collection now and then takes the pool's buffers.
	for size, room := range map[int]uint64{100 << 10: 16 << 10, 1 << 20: 64 << 10} {
		if got := perCall(size); got > small+room {
			t.Errorf("%d bytes: got %d bytes allocated a call, want about the %d of a call for 1 KB", size, got, small)
		}
	}
}
