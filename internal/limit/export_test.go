package limit

import "mcpschedd/internal/age"

// SetClock replaces the clock.
func (h *Hosts) SetClock(clock func() age.Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock, h.lastRead = clock, clock()
}
