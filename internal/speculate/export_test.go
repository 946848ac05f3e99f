package speculate

// Throttle lets tests drive a throttle alone.
type Throttle struct{ t throttle }

func NewThrottle() *Throttle                       { return &Throttle{newThrottle()} }
func (t *Throttle) Level() int                     { return t.t.level }
func (t *Throttle) Era() int                       { return t.t.era }
func (t *Throttle) Started()                       { t.t.started() }
func (t *Throttle) Harm()                          { t.t.harm() }
func (t *Throttle) Label(era int, used, late bool) { t.t.label(era, used, late) }
func Allowance(level, all int) (int, float64)      { return slotsAt(level, all), cautionAt(level) }

// Remembered is how much a scheduler holds on to.
func (d *Scheduler) Remembered() (hosts, lines, changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts.Len(), d.estimates.Len(), len(d.changes)
}

// Followed is how many calls of an upstream are followed.
func (d *Scheduler) Followed(upstream uint64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.estimateLocked(upstream).runs)
}

// Remembered is how much a session holds on to.
func (s *Session) Remembered() (calls, issued, watched int) {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	return len(s.calls), len(s.issued), len(s.watched)
}
