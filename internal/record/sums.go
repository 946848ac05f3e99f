package record

import (
	"cmp"
	"math"
	"reflect"
	"strings"
)

// sums accumulates the figures of one tool, or of all events without one. Ratios are derived
// when the figures are read.
type sums struct {
	Totals // only sums and counts, nothing derived

	saved, toClient        float64 // tokens saved, and tokens sent to clients
	latency, fetch, result Histogram
}

// addEvent counts an event.
func (s *sums) addEvent(e *Event) {
	switch e.Kind {
	case Call:
		s.addCall(e)
	case Prefetch:
		s.addPrefetch(e)
	case Choice:
		s.Candidates += int64(e.Candidates)
		for reason, n := range e.Reasons {
			addCount(&s.Declined, reason, int64(n))
		}
		s.LateInvoked += int64(e.LateCalled)
	case Plan:
		s.addPlan(e)
	case Harm:
		s.Harm.add(e)
	}
}

func (s *sums) addCall(e *Event) {
	s.Calls++
	switch e.Disposition {
	case Hit:
		s.ServedStored++
	case Joined:
		s.Joined++
	case Fetched:
		s.Fetched++
	default:
		s.Failed++
	}
	switch {
	case e.served() && e.UseOf > 0:
		s.HiddenByPrefetch += e.HiddenMS
	case e.served():
		s.HiddenByRepeat += e.HiddenMS
		s.Repeats++
	}
	s.Errors += boolToInt(e.IsError)
	s.UpstreamCalls += int64(e.Sent)
	s.WaitedMS += e.LatencyMS
	s.Reads += boolToInt(e.reads())
	s.Unclassified += boolToInt(e.Class == "indeterminate")
	s.BackOffs += boolToInt(e.BackedOff)
	s.References += boolToInt(e.NotResent > 0)
	s.Inlined += int64(e.Inlined)
	s.latency.Add(e.LatencyMS)
	if e.UpstreamMS > 0 {
		s.fetch.Add(e.UpstreamMS)
	}
	if e.Bytes > 0 {
		s.result.Add(float64(e.Bytes) / 1024)
	}
	if e.UseOf == 0 { // else it counts with the prefetch
		s.addSize(e)
	}
	s.saved += float64(e.NotResent) / bytesPerToken
	if e.Plan == 0 { // the answer of a plan's step goes to the plan and not to the client
		s.toClient += float64(max(0, e.Bytes-e.NotResent)) / bytesPerToken
	}
}

func (s *sums) addPrefetch(e *Event) {
	p := &s.Prefetch
	p.Issued++
	p.Dispatched += boolToInt(e.Sent > 0)
	switch e.Fate {
	case Used:
		p.InTime++
	case Late:
		p.Late++
	case Compared:
		p.Compared++
	default:
		addCount(&p.Wasted, cmp.Or(e.Cause, "unknown"), 1)
	}
	s.UpstreamCalls += int64(e.Sent)
	if e.LatencyMS > 0 && e.Cause != "dropped" { // a dropped fetch was cut short
		s.fetch.Add(e.LatencyMS)
	}
	s.addSize(e)
}

// addPlan counts a plan. A cancelled plan saved nothing, as its answer was not read.
func (s *sums) addPlan(e *Event) {
	s.Plans++
	s.PlanSteps += int64(e.Steps)
	if !e.Cancelled {
		s.TurnsSaved.Plan += max(0, int64(e.Depth)-1)
		s.saved += float64(max(0, e.BytesIn-e.BytesOut)) / bytesPerToken
		s.toClient += float64(e.BytesOut) / bytesPerToken
	}
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

// bytesPerToken is the estimate for answers.
const bytesPerToken = 4

// addSize compares the predicted with the actual size.
func (s *sums) addSize(e *Event) {
	if e.Predicted > 0 && e.Tokens > 0 {
		s.Predictions++
		s.CostOverruns += boolToInt(10*e.Tokens >= 13*e.Predicted)
	}
}

// merge adds the figures of another tool.
func (s *sums) merge(o *sums) {
	addFields(reflect.ValueOf(&s.Totals).Elem(), reflect.ValueOf(&o.Totals).Elem())
	s.saved, s.toClient = s.saved+o.saved, s.toClient+o.toClient
	s.latency.merge(&o.latency)
	s.fetch.merge(&o.fetch)
	s.result.merge(&o.result)
}

// totals returns a copy of the sums with all derived figures.
func (s *sums) totals() Totals {
	all := &sums{Totals: Totals{Declined: map[string]int64{}}}
	all.Prefetch.Wasted = map[string]int64{} // so that JSON has {} and not null
	all.merge(s)
	f := all.Totals
	f.TokensSaved, f.TokensToClient = int64(math.Round(s.saved)), int64(math.Round(s.toClient))
	f.LatencyMS, f.FetchMS, f.ResultKB = s.latency.quantiles(), s.fetch.quantiles(), s.result.quantiles()
	f.derive()
	return f
}

func (f *Totals) derive() {
	f.Part.derive()
	f.ServedShare = ratio(f.Prefetch.Used, f.Reads)
}

func (p *Part) derive() {
	p.Amplification = ratio(p.UpstreamCalls, p.Calls)
	p.HiddenMS = p.HiddenByPrefetch + p.HiddenByRepeat
	p.Prefetch.Used = p.Prefetch.InTime + p.Prefetch.Late
	p.Prefetch.Accuracy = ratio(p.Prefetch.Used, p.Prefetch.Issued-p.Prefetch.Open)
	p.Prefetch.Timeliness = ratio(p.Prefetch.InTime, p.Prefetch.Used)
}

// AddOpen adds n prefetches that have no event yet, as their fate is not known.
func (s *Stats) AddOpen(n int) {
	p := &s.Totals.Prefetch
	p.Open, p.Issued = p.Open+int64(n), p.Issued+int64(n)
	s.Totals.UpstreamCalls += int64(n)
	s.Totals.derive()
	s.Report = s.ReportLine()
}

// Add adds the figures of another replica, which has counted other events. The longer uptime
// is kept.
func (s *Stats) Add(other *Stats) {
	s.UptimeS = max(s.UptimeS, other.UptimeS)
	s.Processes, s.Sessions, s.Open = s.Processes+other.Processes, s.Sessions+other.Sessions, s.Open+other.Open
	s.Replicas = append(s.Replicas, other.Replicas...)
	addFields(reflect.ValueOf(&s.Totals).Elem(), reflect.ValueOf(&other.Totals).Elem())
	for _, parts := range []struct{ to, more map[string]Part }{{s.Upstreams, other.Upstreams}, {s.Tools, other.Tools}} {
		for name, part := range parts.more {
			sum := parts.to[name]
			addFields(reflect.ValueOf(&sum).Elem(), reflect.ValueOf(&part).Elem())
			sum.derive()
			parts.to[name] = sum
		}
	}
	s.SetRunning(append(s.Running, other.Running...))
	s.Totals.derive()
	s.Report = s.ReportLine()
}

// addFields adds numbers and maps of numbers field by field. The caller must derive ratios again.
func addFields(to, more reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		if q, ok := to.Addr().Interface().(*Quantiles); ok {
			q.add(more.Interface().(Quantiles))
			return
		}
		for i := range to.NumField() {
			addFields(to.Field(i), more.Field(i))
		}
	case reflect.Int, reflect.Int64:
		to.SetInt(to.Int() + more.Int())
	case reflect.Float64:
		to.SetFloat(to.Float() + more.Float())
	case reflect.Map:
		sums := to.Addr().Interface().(*map[string]int64)
		for name, n := range more.Interface().(map[string]int64) {
			addCount(sums, name, n)
		}
	}
}

// add merges quantiles without their values: each becomes the mean of both, weighted by the
// number of values.
func (q *Quantiles) add(more Quantiles) {
	n := q.N + more.N
	if n == 0 {
		return
	}
	mean := func(a, b float64) float64 { return (a*float64(q.N) + b*float64(more.N)) / float64(n) }
	*q = Quantiles{
		N: n, Sum: q.Sum + more.Sum, Max: max(q.Max, more.Max),
		P50: mean(q.P50, more.P50), P90: mean(q.P90, more.P90), P99: mean(q.P99, more.P99),
	}
}

// maxReasons bounds the names of a map of counts, and other is the name of the rest.
const (
	maxReasons = 64
	other      = "(other)"
)

// addCount adds n to the count of a name, and makes the map if it is nil.
func addCount(m *map[string]int64, name string, n int64) {
	if n <= 0 {
		return
	}
	if *m == nil {
		*m = make(map[string]int64)
	}
	if _, known := (*m)[name]; !known && len(*m) >= maxReasons {
		name = other
	}
	(*m)[strings.Clone(truncate(name, maxName))] += min(n, maxCount)
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
