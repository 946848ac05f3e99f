package replay

import (
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/speculate"
)

// Sabotage breaks the rules by which the stores of all arms are asked.
func (p *Player) Sabotage(how func(*dedup.Query)) {
	for _, a := range p.arms {
		a.sabotage = how
	}
}

// Watch is told of every guess that the arm of that number makes: of the turns that
// the session has had, and of the call.
func (p *Player) Watch(arm int, begun func(turns int, tool, arguments string)) {
	p.arms[arm].begun = begun
}

// Stored are the counts of the store of an arm.
func (p *Player) Stored(arm int) dedup.Stats { return p.arms[arm].store.Stats() }

// Known is what the scheduler of an arm has found out of how the upstream works.
func (p *Player) Known(arm int) speculate.Known { return p.arms[arm].scheduler.Known(upstreamID) }

// Times are when the calls of a session begin and end if it is laid out with a
// latency of one second where none is recorded.
func (s *Session) Times(think time.Duration) (times [][2]time.Duration) {
	s.lay(think, func(*made) time.Duration { return time.Second })
	for _, turn := range s.turns {
		for _, m := range turn.calls {
			times = append(times, [2]time.Duration{m.start, m.end})
		}
	}
	return times
}
