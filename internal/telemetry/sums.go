package telemetry

import (
	"maps"
	"math"

	"mcpschedd/internal/events"
)

// Reasons of harm lines.
const (
	foregroundWait = "foreground_wait"
	rateLimited    = "rate_limited"
	eviction       = "eviction"
	question       = "question"
)

// sums are what is counted of everything, and of one upstream, tool or session.
// What follows from them, and needs a ratio, is worked out when they are read.
type sums struct {
	sum Totals // its Part has sums only

	under                  int64   // requests of guesses of which there is no line yet
	saved, toClient        float64 // tokens that were not, and that were, sent to clients
	savedBytes, sentBytes  float64 // the same, where only bytes are known
	seenBytes, seenTokens  float64 // of answers of which both are known
	latency, fetch, result spread
}

func newSums(digits int) *sums {
	return &sums{
		latency: spread{digits: digits, unit: 1e-3, top: 3600e6},
		fetch:   spread{digits: digits, unit: 1e-3, top: 3600e6},
		result:  spread{digits: digits, unit: 1.0 / 1024, top: 1 << 30},
	}
}

func (s *sums) call(e *events.Event, d events.Disposition) {
	f := &s.sum
	f.Calls++
	switch d {
	case events.Hit:
		f.ServedStored++
	case events.Joined:
		f.Joined++
	case events.Fetched:
		f.Fetched++
	case events.Failed:
		f.Failed++
	}
	if served(d) {
		hidden := ms(e.HiddenMS)
		f.HiddenMS += hidden
		if e.UseOf > 0 {
			f.HiddenByPrefetch += hidden
		} else {
			f.Repeats++
		}
	}
	s.answer(e)
	s.seen(e)
	if e.UseOf == 0 {
		s.predicted(e)
	}
	s.tokens(e)
}

// answer counts what the answer of a call was, however it came about.
func (s *sums) answer(e *events.Event) {
	f := &s.sum
	f.Errors += one(e.IsError)
	f.UpstreamCalls += count(int64(e.Sent))
	f.WaitedMS += ms(e.LatencyMS)
	f.Reads += one(reads(e))
	f.BackOffs += one(e.BackedOff)
	f.References += one(e.Reference)
	f.Inlined += count(int64(e.Inlined))
	s.latency.add(ms(e.LatencyMS))
	if e.UpstreamMS > 0 {
		s.fetch.add(ms(e.UpstreamMS))
	}
	if e.Bytes > 0 {
		s.result.add(float64(count(e.Bytes)) / 1024)
	}
}

func (s *sums) prefetch(e *events.Event) {
	p := &s.sum.Prefetch
	p.Issued++
	p.Dispatched += one(e.Sent > 0)
	switch e.Fate {
	case events.Used:
		p.Used++
	case events.Late:
		p.Used++
		p.Late++
	case events.Compared:
		p.Compared++
	case events.Wasted:
		bump(&p.Wasted, cause(e), 1)
	}
	s.sum.UpstreamCalls += count(int64(e.Sent))
	s.under -= count(int64(e.Sent))
	if e.LatencyMS > 0 && e.Cause != "dropped" { // what was dropped was cut short
		s.fetch.add(ms(e.LatencyMS))
	}
	s.seen(e)
	s.predicted(e)
}

// sent counts requests that are not in the line of their call. Those of a guess are in
// its line too, which comes later, or never if the process was killed.
func (s *sums) sent(e *events.Event) {
	if e.Prefetched {
		s.under += count(int64(e.Sent))
	} else {
		s.sum.UpstreamCalls += count(int64(e.Sent))
	}
}

func (s *sums) choice(e *events.Event) {
	s.sum.Candidates += count(int64(e.Candidates))
	for reason, n := range e.Reasons {
		bump(&s.sum.Declined, reason, count(int64(n)))
	}
	s.sum.LateInvoked += count(int64(e.LateCalled))
	s.sum.BestMS += ms(e.BestMS)
	s.sum.RegretMS += ms(ms(e.BestMS) - ms(e.AchievedMS))
}

func (s *sums) plan(e *events.Event) {
	s.sum.Plans++
	s.sum.PlanSteps += count(int64(e.Steps))
	if e.Cancelled {
		return
	}
	s.sum.TurnsSaved.Plan += count(int64(e.Depth) - 1)
	s.savedBytes += float64(count(count(e.BytesIn) - count(e.BytesOut)))
	s.sentBytes += float64(count(e.BytesOut))
}

func (s *sums) harm(e *events.Event) {
	h := &s.sum.Harm
	switch e.Why {
	case foregroundWait:
		h.ForegroundWaitMS += ms(e.LatencyMS)
	case rateLimited:
		h.RateLimited += max(1, count(e.Count))
	case eviction:
		h.Evictions += max(1, count(e.Count))
	case question:
		h.Questions += max(1, count(e.Count))
	}
}

// seen takes note of how many bytes a token has.
func (s *sums) seen(e *events.Event) {
	if e.Bytes > 0 && e.Tokens > 0 {
		s.seenBytes += float64(count(e.Bytes))
		s.seenTokens += float64(count(e.Tokens))
	}
}

// predicted holds a prediction against what came.
func (s *sums) predicted(e *events.Event) {
	if e.Predicted > 0 && e.Tokens > 0 {
		s.sum.Predictions++
		s.sum.CostOverruns += one(10*count(e.Tokens) >= 13*count(e.Predicted))
	}
}

// tokens counts what went to the client, and what did not. The answer of a plan's
// step goes to the plan.
func (s *sums) tokens(e *events.Event) {
	bytes, tokens, kept := float64(count(e.Bytes)), float64(count(e.Tokens)), float64(count(e.NotResent))
	sent := max(0, bytes-kept)
	if e.Plan > 0 {
		sent = 0
	}
	if bytes > 0 && tokens > 0 {
		s.saved += kept * tokens / bytes
		s.toClient += sent * tokens / bytes
	} else {
		s.savedBytes += kept
		s.sentBytes += sent
	}
}

// bytesPerToken is what the answers so far have had; 4 where none was seen.
func (s *sums) bytesPerToken() float64 {
	if s.seenTokens == 0 {
		return 4
	}
	return s.seenBytes / s.seenTokens
}

// totals is a copy with everything that follows from the sums.
func (s *sums) totals(perToken float64) Totals {
	f := s.sum
	f.Part = s.part(perToken)
	f.Declined = cloned(f.Declined)
	f.ServedShare = share(float64(f.Prefetch.Used), float64(f.Reads))
	return f
}

func (s *sums) part(perToken float64) Part {
	p := s.sum.Part
	p.Prefetch.Open = max(0, s.under)
	p.UpstreamCalls += p.Prefetch.Open
	p.Amplification = share(float64(p.UpstreamCalls), float64(p.Calls))
	p.Prefetch.Wasted = cloned(p.Prefetch.Wasted)
	p.Prefetch.Accuracy = share(float64(p.Prefetch.Used), float64(p.Prefetch.Issued))
	p.Prefetch.Timeliness = share(float64(p.Prefetch.Used-p.Prefetch.Late), float64(p.Prefetch.Used))
	p.TokensSaved = int64(math.Round(s.saved + s.savedBytes/perToken))
	p.TokensToClient = int64(math.Round(s.toClient + s.sentBytes/perToken))
	p.LatencyMS = s.latency.quantiles()
	p.FetchMS = s.fetch.quantiles()
	p.ResultKB = s.result.quantiles()
	return p
}

func cloned(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{} // so that JSON has {} and not null
	}
	return maps.Clone(m)
}

// share is a/b, 0 if there is nothing to divide by.
func share(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func served(d events.Disposition) bool { return d == events.Hit || d == events.Joined }

func used(e *events.Event) bool { return e.Fate == events.Used || e.Fate == events.Late }

func reads(e *events.Event) bool { return e.Class == "pure" || e.Class == "read_only" }

func cause(e *events.Event) string {
	if e.Cause == "" {
		return "unknown"
	}
	return e.Cause
}
