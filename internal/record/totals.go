package record

import (
	"cmp"
	"reflect"

	"mcpschedd/internal/excerpt"
)

// add counts an event.
func (f *Totals) add(e *Event) {
	switch e.Kind {
	case Call:
		f.addCall(e)
	case Prefetch:
		f.addPrefetch(e)
	case Decision:
		f.Candidates += int64(e.Candidates)
		for reason, n := range e.Declined {
			addCount(&f.Declined, reason, int64(n))
		}
		f.LateCalled += int64(e.LateCalled)
	case Plan:
		f.Plans++
		f.PlanSteps += int64(e.Steps)
		if !e.Cancelled { // else its answer was not read
			f.TurnsSaved.Plan += max(0, int64(e.Depth)-1)
			f.TokensSaved += max(0, e.BytesIn-e.BytesOut) / BytesPerToken
			f.TokensToClient += e.BytesOut / BytesPerToken
		}
	case Harm:
		f.addHarm(e)
	}
}

func (f *Totals) addCall(e *Event) {
	f.Calls++
	switch e.Disposition {
	case Hit:
		f.Hit++
	case Joined:
		f.Joined++
	case Fetched:
		f.Fetched++
	default:
		f.Failed++
	}
	if e.Disposition == Hit || e.Disposition == Joined {
		f.HiddenMS += e.HiddenMS
		if e.UseOf > 0 {
			f.HiddenByPrefetch += e.HiddenMS
		} else {
			f.HiddenByRepeat += e.HiddenMS
			f.Repeats++
		}
	}
	f.Errors += boolToInt(e.IsError)
	f.UpstreamCalls += int64(e.Sent)
	f.WaitedMS += e.LatencyMS
	f.Reads += boolToInt(e.Class == "pure" || e.Class == "read_only")
	f.Unclassified += boolToInt(e.Class == "indeterminate")
	f.BackOffs += boolToInt(e.BackedOff)
	f.References += boolToInt(e.NotResent > 0)
	f.Inlined += int64(e.Inlined)
	f.LatencyMS.Add(e.LatencyMS)
	if e.UpstreamMS > 0 {
		f.FetchMS.Add(e.UpstreamMS)
	}
	if e.Bytes > 0 {
		f.ResultKB.Add(float64(e.Bytes) / 1024)
	}
	if e.UseOf == 0 { // else it counts with the prefetch
		f.addSize(e)
	}
	f.TokensSaved += e.NotResent / BytesPerToken
	if e.Plan == 0 { // the answer of a plan's step goes to the plan and not to the client
		f.TokensToClient += max(0, e.Bytes-e.NotResent) / BytesPerToken
	}
}

func (f *Totals) addPrefetch(e *Event) {
	p := &f.Prefetch
	p.Issued++
	p.Dispatched += boolToInt(e.Sent > 0)
	switch e.Fate {
	case Used:
		p.Used++
		p.InTime++
	case Late:
		p.Used++
		p.Late++
	case Compared:
		p.Compared++
	default:
		addCount(&p.Wasted, cmp.Or(e.Cause, "unknown"), 1)
	}
	f.UpstreamCalls += int64(e.Sent)
	if e.LatencyMS > 0 && e.Cause != "dropped" { // a dropped fetch was cut short
		f.FetchMS.Add(e.LatencyMS)
	}
	f.addSize(e)
}

func (f *Totals) addHarm(e *Event) {
	h, n := &f.Harm, max(1, e.Count)
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

// BytesPerToken is the estimate for texts that are not counted.
const BytesPerToken = 4

// addSize compares the predicted with the actual size.
func (f *Totals) addSize(e *Event) {
	if e.PredictedTokens > 0 && e.Tokens > 0 {
		f.Predictions++
		f.CostOverruns += boolToInt(10*e.Tokens >= 13*e.PredictedTokens)
	}
}

// newFigures returns a Figures without a nil map, so that JSON has {} and not null.
func newFigures() Figures { return Figures{Prefetch: PrefetchFigures{Wasted: make(map[string]int64)}} }

// addFigures adds figures to those that have a name.
func addFigures(to map[string]Figures, name string, more *Figures) {
	sum, known := to[name]
	if !known {
		sum = newFigures()
	}
	sumUp(&sum, more)
	to[name] = sum
}

// derive sets the ratios, the quantiles and the report line from the sums.
func (s *Stats) derive() {
	s.Totals.derive()
	s.Totals.ServedShare = Ratio(s.Totals.Prefetch.Used, s.Totals.Reads)
	for _, all := range []map[string]Figures{s.Upstreams, s.Tools} {
		for name, figures := range all {
			figures.derive()
			all[name] = figures
		}
	}
	s.Report = s.ReportLine()
}

func (f *Figures) derive() {
	f.Amplification = Ratio(f.UpstreamCalls, f.Calls)
	f.Prefetch.Accuracy = Ratio(f.Prefetch.Used, f.Prefetch.Issued-f.Prefetch.Open)
	f.Prefetch.Timeliness = Ratio(f.Prefetch.InTime, f.Prefetch.Used)
	for _, h := range []*Histogram{&f.LatencyMS, &f.FetchMS, &f.ResultKB} {
		h.derive()
	}
}

// AddOpen adds prefetches that are not recorded yet, as their fates are not known.
func (s *Stats) AddOpen(prefetches ...Event) {
	for _, e := range prefetches {
		one := Figures{UpstreamCalls: int64(e.Sent), Prefetch: PrefetchFigures{Issued: 1, Dispatched: boolToInt(e.Sent > 0), Open: 1}}
		sumUp(&s.Totals.Figures, &one)
		addFigures(s.Upstreams, e.Upstream, &one)
		addFigures(s.Tools, toolKey{e.Upstream, e.Tool}.String(), &one)
	}
	s.derive()
}

// Add adds the figures of another replica, which has counted other events. The longer uptime
// is kept.
func (s *Stats) Add(other *Stats) {
	s.UptimeS = max(s.UptimeS, other.UptimeS)
	s.Processes, s.Sessions = s.Processes+other.Processes, s.Sessions+other.Sessions
	s.Replicas = append(s.Replicas, other.Replicas...)
	sumUp(&s.Totals, &other.Totals)
	for name, figures := range other.Upstreams {
		addFigures(s.Upstreams, name, &figures)
	}
	for name, figures := range other.Tools {
		addFigures(s.Tools, name, &figures)
	}
	s.SetRunning(append(s.Running, other.Running...))
	s.derive()
}

// sumUp adds numbers and maps of numbers field by field. The ratios must be derived again.
func sumUp[T any](to, more *T) { addFields(reflect.ValueOf(to).Elem(), reflect.ValueOf(more).Elem()) }

func addFields(to, more reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		if h, ok := reflect.TypeAssert[*Histogram](to.Addr()); ok {
			h.merge(more.Addr().Interface().(*Histogram))
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
	(*m)[excerpt.Shorten(name, maxName)] += min(n, maxCount)
}

// Ratio returns a/b, or 0 if b is 0.
func Ratio[T int | int64](a, b T) float64 {
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
