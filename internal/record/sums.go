package record

import (
	"maps"
	"math"
)

// sums are what is counted of everything, and of one upstream, tool or session. What
// follows from them, and needs a ratio, is worked out when they are read.
type sums struct {
	sum Totals // its Part has sums only

	open                   int64   // requests of prefetches whose own line has not come yet
	saved, toClient        float64 // tokens that were not, and that were, sent to clients
	latency, fetch, result Histogram
}

// add counts an event. A call without an upstream, for a tool that none has, has failed.
func (s *sums) add(e *Event) {
	switch e.Kind {
	case Call:
		s.call(e)
	case Prefetch:
		s.prefetch(e)
	case Sent: // a prefetch's requests are in its own line too, which comes later, or never if the process was killed
		if e.Prefetched {
			s.open += int64(e.Sent)
		} else {
			s.sum.UpstreamCalls += int64(e.Sent)
		}
	case Choice:
		s.choice(e)
	case Plan:
		s.plan(e)
	case Harm:
		s.sum.Harm.add(e)
	}
}

func (s *sums) call(e *Event) {
	f := &s.sum
	f.Calls++
	switch e.Disposition {
	case Hit:
		f.ServedStored++
	case Joined:
		f.Joined++
	case Fetched:
		f.Fetched++
	case Failed:
		f.Failed++
	}
	if served(e) {
		hidden := e.HiddenMS
		f.HiddenMS += hidden
		if e.UseOf > 0 {
			f.HiddenByPrefetch += hidden
		} else {
			f.Repeats++
		}
	}
	f.Errors += one(e.IsError)
	f.UpstreamCalls += int64(e.Sent)
	f.WaitedMS += e.LatencyMS
	f.Reads += one(reads(e))
	f.Unclassified += one(e.Class == "indeterminate")
	f.BackOffs += one(e.BackedOff)
	f.References += one(e.Reference)
	f.Inlined += int64(e.Inlined)
	s.latency.Add(e.LatencyMS)
	if e.UpstreamMS > 0 {
		s.fetch.Add(e.UpstreamMS)
	}
	if e.Bytes > 0 {
		s.result.Add(float64(e.Bytes) / 1024)
	}
	s.size(e)
	s.tokens(e)
}

func (s *sums) prefetch(e *Event) {
	p := &s.sum.Prefetch
	p.Issued++
	p.Dispatched += one(e.Sent > 0)
	switch e.Fate {
	case Used:
		p.Used++
	case Late:
		p.Used++
		p.Late++
	case Compared:
		p.Compared++
	case Wasted:
		bump(&p.Wasted, wasteCause(e), 1)
	}
	s.sum.UpstreamCalls += int64(e.Sent)
	s.open -= int64(e.Sent)
	if e.LatencyMS > 0 && e.Cause != "dropped" { // a dropped one was cut short
		s.fetch.Add(e.LatencyMS)
	}
	s.size(e)
}

func (s *sums) choice(e *Event) {
	s.sum.Candidates += int64(e.Candidates)
	for reason, n := range e.Reasons {
		bump(&s.sum.Declined, reason, int64(n))
	}
	s.sum.LateInvoked += int64(e.LateCalled)
	s.sum.BestMS += e.BestMS
	s.sum.RegretMS += positive(e.BestMS - e.AchievedMS)
}

// plan counts a plan. A cancelled one saved nothing: its answer was not read.
func (s *sums) plan(e *Event) {
	s.sum.Plans++
	s.sum.PlanSteps += int64(e.Steps)
	if e.Cancelled {
		return
	}
	s.sum.TurnsSaved.Plan += max(0, int64(e.Depth)-1)
	s.saved += float64(max(0, e.BytesIn-e.BytesOut)) / bytesPerToken
	s.toClient += float64(e.BytesOut) / bytesPerToken
}

func (h *HarmPart) add(e *Event) {
	n := max(1, e.Count)
	switch e.Why {
	case "foreground_wait":
		h.ForegroundWaitMS += e.LatencyMS
	case "rate_limited":
		h.RateLimited += n
	case "eviction":
		h.Evictions += n
	case "question":
		h.Questions += n
	}
}

// bytesPerToken is what an answer has of which only the bytes are known.
const bytesPerToken = 4

// size compares a prediction with what came: of a prefetch and of the call that was its first
// use once, with the prefetch.
func (s *sums) size(e *Event) {
	if e.Predicted > 0 && e.Tokens > 0 && (e.Kind == Prefetch || e.UseOf == 0) {
		s.sum.Predictions++
		s.sum.CostOverruns += one(10*e.Tokens >= 13*e.Predicted)
	}
}

// tokens counts what went to the client, and what did not. The answer of a plan's step
// goes to the plan.
func (s *sums) tokens(e *Event) {
	bytes, tokens, kept := float64(e.Bytes), float64(e.Tokens), float64(e.NotResent)
	sent := max(0, bytes-kept)
	if e.Plan > 0 {
		sent = 0
	}
	perByte := 1.0 / bytesPerToken
	if bytes > 0 && tokens > 0 {
		perByte = tokens / bytes
	}
	s.saved += kept * perByte
	s.toClient += sent * perByte
}

// totals is a copy with everything that follows from the sums.
func (s *sums) totals() Totals {
	f := s.sum
	f.Part = s.part()
	f.Declined = cloned(f.Declined)
	f.derive()
	return f
}

func (s *sums) part() Part {
	p := s.sum.Part
	open := max(0, s.open)
	p.UpstreamCalls += open
	p.Prefetch.Issued, p.Prefetch.Open = p.Prefetch.Issued+open, open
	p.Prefetch.Wasted = cloned(p.Prefetch.Wasted)
	p.TokensSaved = int64(math.Round(s.saved))
	p.TokensToClient = int64(math.Round(s.toClient))
	p.LatencyMS = s.latency.quantiles()
	p.FetchMS = s.fetch.quantiles()
	p.ResultKB = s.result.quantiles()
	p.derive()
	return p
}

// Derive works out what follows from other figures, when those were changed.
func (s *Stats) Derive() {
	s.Totals.derive()
	s.Report = s.ReportLine()
}

func (f *Totals) derive() {
	f.Part.derive()
	f.ServedShare = ratio(f.Prefetch.Used, f.Reads)
	f.RecallLoss = ratio(f.LateInvoked, sumOf(f.Declined))
	f.OverrunShare = ratio(f.CostOverruns, f.Predictions)
}

func (p *Part) derive() {
	p.Amplification = ratio(p.UpstreamCalls, p.Calls)
	p.HiddenByRepeat = max(0, p.HiddenMS-p.HiddenByPrefetch)
	p.Prefetch.InTime = p.Prefetch.Used - p.Prefetch.Late
	p.Prefetch.Accuracy = ratio(p.Prefetch.Used, p.Prefetch.Issued-p.Prefetch.Open)
	p.Prefetch.Timeliness = ratio(p.Prefetch.InTime, p.Prefetch.Used)
}

func cloned(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{} // so that JSON has {} and not null
	}
	return maps.Clone(m)
}

// ratio is a/b, 0 if there is nothing to divide by.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// served reports whether a call was answered without its upstream.
func served(e *Event) bool { return e.Disposition == Hit || e.Disposition == Joined }

// used reports whether a call was given the answer of a prefetch.
func used(e *Event) bool { return e.Fate == Used || e.Fate == Late }

func reads(e *Event) bool { return e.Class == "pure" || e.Class == "read_only" }

func wasteCause(e *Event) string {
	if e.Cause == "" {
		return "unknown"
	}
	return e.Cause
}
