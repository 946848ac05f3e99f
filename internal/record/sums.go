package record

import (
	"cmp"
	"maps"
	"math"
)

// sums accumulates the figures of all events, or of one upstream, tool or session. Ratios are
// derived when the figures are read.
type sums struct {
	sum Totals // only sums and counts, nothing derived

	open                   int64   // requests of prefetches without an event of their own yet
	saved, toClient        float64 // tokens saved, and tokens sent to clients
	latency, fetch, result Histogram
}

// add counts an event.
func (s *sums) add(e *Event) {
	switch e.Kind {
	case Call:
		s.call(e)
	case Prefetch:
		s.prefetch(e)
	case Sent: // the later event of a prefetch repeats its requests, but a killed process never writes it
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
	f.Errors += boolToInt(e.IsError)
	f.UpstreamCalls += int64(e.Sent)
	f.WaitedMS += e.LatencyMS
	f.Reads += boolToInt(reads(e))
	f.Unclassified += boolToInt(e.Class == "indeterminate")
	f.BackOffs += boolToInt(e.BackedOff)
	f.References += boolToInt(e.Reference)
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
	p.Dispatched += boolToInt(e.Sent > 0)
	switch e.Fate {
	case Used:
		p.Used++
	case Late:
		p.Used++
		p.Late++
	case Compared:
		p.Compared++
	case Wasted:
		addCount(&p.Wasted, cmp.Or(e.Cause, "unknown"), 1)
	}
	s.sum.UpstreamCalls += int64(e.Sent)
	s.open -= int64(e.Sent)
	if e.LatencyMS > 0 && e.Cause != "dropped" { // a dropped fetch was cut short
		s.fetch.Add(e.LatencyMS)
	}
	s.size(e)
}

func (s *sums) choice(e *Event) {
	s.sum.Candidates += int64(e.Candidates)
	for reason, n := range e.Reasons {
		addCount(&s.sum.Declined, reason, int64(n))
	}
	s.sum.LateInvoked += int64(e.LateCalled)
	s.sum.BestMS += e.BestMS
	s.sum.RegretMS += nonNegative(e.BestMS - e.AchievedMS)
}

// plan counts a plan. A cancelled plan saved nothing, as its answer was not read.
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

// bytesPerToken is the estimate for answers whose tokens were not counted.
const bytesPerToken = 4

// size compares the predicted with the actual size. A prefetch and the call that used it first
// count once, with the prefetch.
func (s *sums) size(e *Event) {
	if e.Predicted > 0 && e.Tokens > 0 && (e.Kind == Prefetch || e.UseOf == 0) {
		s.sum.Predictions++
		s.sum.CostOverruns += boolToInt(10*e.Tokens >= 13*e.Predicted)
	}
}

// tokens counts the tokens sent to the client and those saved. The answer of a plan's step goes
// to the plan and not to the client.
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

// totals returns a copy of the sums with all derived figures.
func (s *sums) totals() Totals {
	f := s.sum
	f.Part = s.part()
	f.Declined = cloneCounts(f.Declined)
	f.derive()
	return f
}

func (s *sums) part() Part {
	p := s.sum.Part
	open := max(0, s.open)
	p.UpstreamCalls += open
	p.Prefetch.Issued, p.Prefetch.Open = p.Prefetch.Issued+open, open
	p.Prefetch.Wasted = cloneCounts(p.Prefetch.Wasted)
	p.TokensSaved = int64(math.Round(s.saved))
	p.TokensToClient = int64(math.Round(s.toClient))
	p.LatencyMS = s.latency.quantiles()
	p.FetchMS = s.fetch.quantiles()
	p.ResultKB = s.result.quantiles()
	p.derive()
	return p
}

// Derive recomputes the derived figures and the report line after other figures were changed.
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

func cloneCounts(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{} // so that JSON has {} and not null
	}
	return maps.Clone(m)
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func boolToInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// served reports whether a call was answered without a fetch of its own.
func served(e *Event) bool { return e.Disposition == Hit || e.Disposition == Joined }

// used reports whether a call used the answer of a prefetch.
func used(e *Event) bool { return e.Fate == Used || e.Fate == Late }

func reads(e *Event) bool { return e.Class == "pure" || e.Class == "read_only" }
