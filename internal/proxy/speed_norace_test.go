//go:build !race

package proxy_test

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// perCall returns the allocations of the process for one call with an answer of that size.
func (c *bare) perCall(t *testing.T, size int) (allocations, bytes uint64) {
	line := bigCall(size)
	calls := uint64(max(20, 40_000_000/(size+300_000)))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pool
	c.ask(t, line)                                   // allocates the buffers of this size
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		c.ask(t, line)
	}
	runtime.ReadMemStats(&after)
	return (after.Mallocs - before.Mallocs) / calls, (after.TotalAlloc - before.TotalAlloc) / calls
}

// A call that passes through makes few allocations: 35 were measured, and the rest of the process
// adds one or two.
func TestCallAllocates(t *testing.T) {
	if got, _ := dial(t).perCall(t, 1<<10); got > 37 {
		t.Errorf("got %d allocations a call, want at most 37", got)
	}
}

// The memory that is allocated for a call does not depend on the size of its answer. One copy of
// the answer would cost its size each time; on a busy machine some calls find no free buffer in
// the pool of their processor and allocate one.
func TestCallAllocatesAlikeForAnySize(t *testing.T) {
	c := dial(t)
	_, small := c.perCall(t, 1<<10)
	for _, size := range []int{100 << 10, 1 << 20} {
		if _, got := c.perCall(t, size); got > small+uint64(size)/2 {
			t.Errorf("%d bytes: got %d bytes allocated a call, want about the %d of a call for 1 KB", size, got, small)
		}
	}
}
