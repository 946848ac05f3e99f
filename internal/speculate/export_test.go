package speculate

import "mcpschedd/internal/predict"

// Throttle drives a throttle by itself.
type Throttle struct{ t throttle }

func NewThrottle() *Throttle                       { return &Throttle{newThrottle()} }
func (t *Throttle) Level() int                     { return t.t.level }
func (t *Throttle) Era() int                       { return t.t.generation }
func (t *Throttle) Started()                       { t.t.started() }
func (t *Throttle) Harm()                          { t.t.harm() }
func (t *Throttle) Label(era int, used, late bool) { t.t.label(era, used, late) }
func Allowance(level, all int) (int, float64)      { return slotsAt(level, all), wasteFactorAt(level) }

// Followed returns the number of tracked calls of an instance.
func (d *Scheduler) Followed(instance uint64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.instanceLocked(instance).calls)
}

func Kept(k Known) predict.Concurrency   { return k.toStored() }
func AsKept(c predict.Concurrency) Known { return fromStored(c) }
