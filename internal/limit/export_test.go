package limit

import "mcpschedd/internal/age"

// SetClock puts another clock in the place of the machine's.
func (h *Hosts) SetClock(clock func() age.Moment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock, h.lastRead = clock, clock()
}
