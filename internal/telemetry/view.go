package telemetry

// View is what the dashboard shows: the figures, and what happened lately. All times
// are microseconds since 1970.
type View struct {
	NowUS      int64          `json:"now_us"`
	Stats      Stats          `json:"stats"`
	Series     []Point        `json:"series"`      // oldest first; gaps where nothing happened
	Graph      []Follow       `json:"graph"`       // the most frequent first, at most 60
	GraphOther int64          `json:"graph_other"` // follow-ups between tools that there was no room for
	Timeline   []Bar          `json:"timeline"`    // oldest first, at most 400
	Decisions  []DecisionView `json:"decisions"`   // newest first, at most 50
	Levels     []LevelView    `json:"levels"`      // changes, newest first, at most 50
	Problems   []string       `json:"problems"`    // with the record itself: lost events, unreadable lines
}

// Point is one span of time.
type Point struct {
	AtUS     int64   `json:"at_us"`
	SpanS    int     `json:"span_s"`
	Calls    int64   `json:"calls"`
	Reads    int64   `json:"reads"`
	Issued   int64   `json:"issued"` // prefetches whose fate became known in it
	Used     int64   `json:"used"`   // of those
	Wasted   int64   `json:"wasted"` // of those
	Served   int64   `json:"served"` // calls answered by prefetches
	HiddenMS float64 `json:"hidden_ms"`
	WaitedMS float64 `json:"waited_ms"`
	HarmMS   float64 `json:"harm_ms"`
}

// Follow says how often a tool was called in the turn after one in which another was,
// in the same session; where turns are not known each call is a turn.
type Follow struct {
	From     string  `json:"from"` // upstream/tool
	To       string  `json:"to"`
	N        int64   `json:"n"`
	P        float64 `json:"p"`        // N / turns with a call of From that anything followed
	Issued   int64   `json:"issued"`   // prefetches of To after From
	Used     int64   `json:"used"`     // of those
	Accuracy float64 `json:"accuracy"` // of those; the exact call counts, not the tool alone
}

// Bar is one call or prefetch on the timeline.
type Bar struct {
	AtUS    int64   `json:"at_us"`
	MS      float64 `json:"ms"` // how long it took
	Session string  `json:"session"`
	Process string  `json:"process"`
	Seq     int64   `json:"seq"`
	Tool    string  `json:"tool"` // upstream/tool
	What    string  `json:"what"` // call or prefetch
	How     string  `json:"how"`  // of a call: hit, joined, fetched or failed; of a prefetch: used, late, wasted or compared
	Cause   string  `json:"cause,omitempty"`
	Guessed bool    `json:"guessed,omitempty"` // of a call: by a prefetch
	UseOf   int64   `json:"use_of,omitempty"`
	UsedBy  int64   `json:"used_by,omitempty"`
	P       float64 `json:"p,omitempty"`
	Hidden  float64 `json:"hidden_ms,omitempty"`
	IsError bool    `json:"is_error,omitempty"`
	Plan    int     `json:"plan,omitempty"`
	Turn    int     `json:"turn,omitempty"`
}

// DecisionView is one choice: what was thought of after an answer.
type DecisionView struct {
	AtUS       int64           `json:"at_us"`
	Session    string          `json:"session"`
	After      string          `json:"after"` // upstream/tool; "": not known
	Candidates int             `json:"candidates"`
	Issued     int             `json:"issued"`
	Declined   map[string]int  `json:"declined,omitempty"`
	Top        []CandidateView `json:"top,omitempty"`
	BestMS     float64         `json:"best_ms"`
	AchievedMS float64         `json:"achieved_ms"`
}

// CandidateView is one exact call that was thought of. Its arguments are not shown.
type CandidateView struct {
	Tool    string  `json:"tool"`
	P       float64 `json:"p"`
	Reason  string  `json:"reason,omitempty"` // why it was declined; "": it was begun
	ValueMS float64 `json:"value_ms,omitempty"`
	Tokens  int64   `json:"tokens,omitempty"`
	Called  bool    `json:"called,omitempty"`
}

// LevelView is one change of how freely is guessed.
type LevelView struct {
	AtUS    int64  `json:"at_us"`
	Host    string `json:"host,omitempty"`
	Session string `json:"session,omitempty"`
	From    int    `json:"from"`
	To      int    `json:"to"`
	Why     string `json:"why"`
}
