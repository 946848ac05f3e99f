package telemetry

import (
	"cmp"
	"container/list"
	"math"
	"slices"

	"mcpschedd/internal/events"
)

// trajectory is a session as it is written.
type trajectory struct {
	Session     string               `json:"session"`
	Process     string               `json:"process"`
	Client      string               `json:"client,omitempty"` // name and version, as it says
	BeginUS     int64                `json:"begin_us"`
	EndUS       int64                `json:"end_us"`            // without an end: of the last that is known to have happened
	Open        bool                 `json:"open,omitempty"`    // its end is not in the input: it lasts, or its process was killed
	Partial     bool                 `json:"partial,omitempty"` // there is more of it: in other objects, or before the input began
	Turns       []trajectoryTurn     `json:"turns"`
	Prefetches  []trajectoryPrefetch `json:"prefetches"`
	Plans       []trajectoryPlan     `json:"plans"`
	Calls       int                  `json:"calls"`
	Tokens      int64                `json:"tokens"`      // of all answers, those to steps of plans included; an estimate
	WaitMS      float64              `json:"wait_ms"`     // by all calls, for their answers
	HiddenMS    float64              `json:"hidden_ms"`   // that they did not wait
	Parallelism float64              `json:"parallelism"` // wait_ms / the time in which at least one call was under way; 0 without any

	calls   []trajectoryCall
	place   *list.Element // among the sessions that are held; nil: it is not
	held    int64         // bytes, about
	endedAt int64         // number of the line; 0: it has not ended
	written bool          // in part
}

// trajectoryTurn is the calls that the model made together.
type trajectoryTurn struct {
	Turn  int              `json:"turn"` // 0: the calls of which it is not known
	AtUS  int64            `json:"at_us"`
	Calls []trajectoryCall `json:"calls"`
}

// trajectoryCall is a call of a client, or of a step of a plan.
type trajectoryCall struct {
	Seq         int64              `json:"seq"`
	AtUS        int64              `json:"at_us"`
	Tool        string             `json:"tool"` // upstream/tool
	ArgsHash    string             `json:"args_hash,omitempty"`
	Disposition events.Disposition `json:"disposition"`
	LatencyMS   float64            `json:"latency_ms"`
	HiddenMS    float64            `json:"hidden_ms"`
	Tokens      int64              `json:"tokens"`
	IsError     bool               `json:"is_error,omitempty"`
	Error       string             `json:"error,omitempty"`
	UseOf       int64              `json:"use_of,omitempty"` // the prefetch (seq) that it used first
	Plan        int                `json:"plan,omitempty"`
	Step        string             `json:"step,omitempty"`
	Needs       []string           `json:"needs,omitempty"` // steps

	turn int
}

// trajectoryPrefetch is a guess and what became of it.
type trajectoryPrefetch struct {
	Seq       int64       `json:"seq"`
	AtUS      int64       `json:"at_us"`
	Tool      string      `json:"tool"`
	ArgsHash  string      `json:"args_hash,omitempty"`
	After     int64       `json:"after,omitempty"` // the call (seq) whose answer made it likely
	P         float64     `json:"p"`
	Fate      events.Fate `json:"fate"`
	Cause     string      `json:"cause,omitempty"`
	UsedBy    int64       `json:"used_by_seq,omitempty"`
	BySession string      `json:"used_by,omitempty"` // whose call that is, where it is another session's
	LatencyMS float64     `json:"latency_ms"`
	Tokens    int64       `json:"tokens"`
}

// trajectoryPlan is a plan, and which of its steps used what others gave.
type trajectoryPlan struct {
	Plan      int         `json:"plan"`
	AtUS      int64       `json:"at_us,omitempty"`
	LatencyMS float64     `json:"latency_ms"`
	Steps     int         `json:"steps"`
	StepsBad  int         `json:"steps_failed,omitempty"`
	Depth     int         `json:"depth"`
	BytesIn   int64       `json:"bytes_in"`
	BytesOut  int64       `json:"bytes_out"`
	Cancelled bool        `json:"cancelled,omitempty"`
	Open      bool        `json:"open,omitempty"`  // its end is not in this object: steps counts the calls that are
	Edges     [][2]string `json:"edges,omitempty"` // from step to step
}

// began takes the line that a session begins with.
func (s *trajectory) began(e *events.Event) {
	s.Client = e.Client
	s.happened(e)
}

// happened widens the time of the session to that of an event.
func (s *trajectory) happened(e *events.Event) {
	if e.At.IsZero() {
		return
	}
	at := e.At.UnixMicro()
	if s.BeginUS == 0 || at < s.BeginUS {
		s.BeginUS = at
	}
	s.EndUS = max(s.EndUS, at+int64(1000*sane(e.LatencyMS)))
}

// call takes a call, and says how many bytes it is held in, about. So do the next two.
func (s *trajectory) call(e *events.Event, tool string) int64 {
	s.happened(e)
	s.calls = append(s.calls, trajectoryCall{
		Seq: e.Seq, AtUS: e.At.UnixMicro(), Tool: tool, ArgsHash: e.ArgsHash, Disposition: e.Disposition,
		LatencyMS: sane(e.LatencyMS), HiddenMS: sane(e.HiddenMS), Tokens: e.Tokens, IsError: e.IsError, Error: e.Error,
		UseOf: e.UseOf, Plan: e.Plan, Step: e.Step, Needs: slices.Clone(e.Needs), turn: e.Turn,
	})
	cost := heldLine + len(tool) + len(e.ArgsHash) + len(e.Disposition) + len(e.Error) + len(e.Step)
	for _, need := range e.Needs {
		cost += 16 + len(need)
	}
	return int64(cost)
}

func (s *trajectory) prefetch(e *events.Event, tool string) int64 {
	s.happened(e)
	s.Prefetches = append(s.Prefetches, trajectoryPrefetch{
		Seq: e.Seq, AtUS: e.At.UnixMicro(), Tool: tool, ArgsHash: e.ArgsHash, After: e.After, P: sane(e.PredictedP),
		Fate: e.Fate, Cause: e.Cause, UsedBy: e.UsedBy, BySession: e.BySession, LatencyMS: sane(e.LatencyMS), Tokens: e.Tokens,
	})
	return int64(heldLine + len(tool) + len(e.ArgsHash) + len(e.Fate) + len(e.Cause) + len(e.BySession))
}

func (s *trajectory) plan(e *events.Event) int64 {
	s.happened(e)
	s.Plans = append(s.Plans, trajectoryPlan{
		Plan: e.Plan, AtUS: e.At.UnixMicro(), LatencyMS: sane(e.LatencyMS), Steps: e.Steps, StepsBad: e.StepsBad, Depth: e.Depth,
		BytesIn: e.BytesIn, BytesOut: e.BytesOut, Cancelled: e.Cancelled,
	})
	return heldLine
}

// empty says whether nothing is held but who the session is.
func (s *trajectory) empty() bool {
	return len(s.calls) == 0 && len(s.Prefetches) == 0 && len(s.Plans) == 0
}

// forget lets all else go.
func (s *trajectory) forget() {
	s.calls, s.Turns, s.Prefetches, s.Plans = nil, nil, nil, nil
}

// sum puts the calls into their turns, and says what they add up to.
func (s *trajectory) sum() {
	s.Plans = append([]trajectoryPlan{}, withEdges(s.Plans, s.calls)...)
	s.Prefetches = append([]trajectoryPrefetch{}, s.Prefetches...)
	slices.SortStableFunc(s.Prefetches, func(a, b trajectoryPrefetch) int { return cmp.Compare(a.Seq, b.Seq) })
	s.Calls, s.Tokens, s.WaitMS, s.HiddenMS = len(s.calls), 0, 0, 0
	for i := range s.calls {
		c := &s.calls[i]
		s.Tokens += c.Tokens
		s.WaitMS += c.LatencyMS
		s.HiddenMS += c.HiddenMS
	}
	s.Parallelism = 0
	if busy := underWayMS(s.calls); busy > 0 {
		s.Parallelism = math.Round(s.WaitMS/busy*1e4) / 1e4
	}
	s.WaitMS, s.HiddenMS = microseconds(s.WaitMS), microseconds(s.HiddenMS)
	s.Turns = turnsOf(s.calls)
}

// turnsOf are the calls by turn, in the order in which they were counted.
func turnsOf(calls []trajectoryCall) []trajectoryTurn {
	slices.SortStableFunc(calls, func(a, b trajectoryCall) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.Seq, b.Seq))
	})
	turns := []trajectoryTurn{}
	for len(calls) > 0 {
		n := 1
		at := calls[0].AtUS
		for ; n < len(calls) && calls[n].turn == calls[0].turn; n++ {
			at = min(at, calls[n].AtUS)
		}
		turns = append(turns, trajectoryTurn{Turn: calls[0].turn, AtUS: at, Calls: calls[:n]})
		calls = calls[n:]
	}
	return turns
}

// withEdges adds to plans what their steps used of each other, and the plans of which
// only steps are there.
func withEdges(plans []trajectoryPlan, calls []trajectoryCall) []trajectoryPlan {
	place := make(map[int]int) // plan → where it stands
	for i := range plans {
		place[plans[i].Plan] = i
	}
	for i := range calls {
		c := &calls[i]
		if c.Plan == 0 {
			continue
		}
		at, ok := place[c.Plan]
		if !ok {
			at = len(plans)
			place[c.Plan] = at
			plans = append(plans, trajectoryPlan{Plan: c.Plan, Open: true})
		}
		p := &plans[at]
		if p.Open {
			p.Steps++
		}
		for _, need := range c.Needs {
			p.Edges = append(p.Edges, [2]string{need, c.Step})
		}
	}
	for i := range plans {
		edges := plans[i].Edges
		slices.SortFunc(edges, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		plans[i].Edges = slices.Compact(edges) // a step may make many calls
	}
	slices.SortStableFunc(plans, func(a, b trajectoryPlan) int { return cmp.Compare(a.Plan, b.Plan) })
	return plans
}

// underWayMS is how long at least one of the calls was under way.
func underWayMS(calls []trajectoryCall) float64 {
	type span struct{ from, to float64 } // in milliseconds
	spans := make([]span, 0, len(calls))
	for i := range calls {
		from := float64(calls[i].AtUS) / 1000
		spans = append(spans, span{from, from + calls[i].LatencyMS})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	sum, until := 0.0, math.Inf(-1)
	for _, x := range spans {
		if x.to > until {
			sum += x.to - max(x.from, until)
			until = x.to
		}
	}
	return sum
}

// sane is a number as it may be added up: what is none, is negative or is longer than
// thirty years of milliseconds is a mistake of the record, and counts as nothing.
func sane(x float64) float64 {
	if x >= 0 && x < 1e12 {
		return x
	}
	return 0
}

// microseconds rounds milliseconds to what is measured.
func microseconds(ms float64) float64 { return math.Round(ms*1000) / 1000 }
