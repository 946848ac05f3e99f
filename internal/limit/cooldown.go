package limit

import "time"

// How long a host is left alone after a 429.
const (
	firstCoolDown   = 30 * time.Second // unless the host says
	longestUnsaid   = 15 * time.Minute // however often it did not say
	longestCoolDown = time.Hour        // whatever it says
)

// coolDown is what the 429s of a host leave behind. Three states: none (the zero
// time in until), cooling (until lies ahead), half open (it lies behind).
type coolDown struct {
	until  time.Time
	era    uint64        // how many 429s have counted as news
	unsaid time.Duration // the last cool-down of which the host did not say the length; 0: none since the host was well
}

// active reports whether prefetches are refused.
func (c *coolDown) active() bool { return !c.until.IsZero() }

// halfOpen reports whether a real call that begins now is a probe. It asks for
// the time only if that matters.
func (c *coolDown) halfOpen(now func() time.Time) bool {
	return c.active() && !now().Before(c.until)
}

// begin notes a 429 on a call that began in that era. What several calls hear at
// once is one piece of news: only a 429 on a call that began after the one before
// was known makes the cool-down longer than that was. None makes it shorter.
func (c *coolDown) begin(era uint64, said time.Duration, now time.Time) {
	wait := min(said, longestCoolDown)
	if said <= 0 {
		if era == c.era || c.unsaid == 0 {
			c.unsaid = min(max(firstCoolDown, 2*c.unsaid), longestUnsaid)
		}
		wait = c.unsaid
	}
	c.era++
	if until := now.Add(wait); until.After(c.until) {
		c.until = until
	}
}

// end is a real call's success after the cool-down.
func (c *coolDown) end() { c.until, c.unsaid = time.Time{}, 0 }
