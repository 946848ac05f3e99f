package replay

import (
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/speculate"
)

// Sabotage modifies the queries to the stores of all arms.
func (p *Player) Sabotage(how func(*dedup.Query)) {
	for _, a := range p.arms {
		a.sabotage = how
	}
}

// Watch calls begun with every prefetch of an arm, and the number of turns so far.
func (p *Player) Watch(arm int, begun func(turns int, tool, arguments string)) {
	p.arms[arm].onPrefetch = begun
}

// Stored returns the counts of an arm's store.
func (p *Player) Stored(arm int) dedup.Stats { return p.arms[arm].store.Stats() }

// Known returns what the scheduler of an arm has learned about the upstream.
func (p *Player) Known(arm int) speculate.Concurrency {
	is, _ := p.arms[arm].scheduler.Concurrency("")
	return is
}

// Times returns the start and end of a session's calls, with a latency of one second where none
// is recorded.
func (s *Session) Times(think time.Duration) (times [][2]time.Duration) {
	s.layOut(think, func(*playedCall) time.Duration { return time.Second })
	for _, turn := range s.turns {
		for _, m := range turn.calls {
			times = append(times, [2]time.Duration{m.start, m.end})
		}
	}
	return times
}
