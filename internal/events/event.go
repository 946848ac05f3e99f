// Package events is the record of what happened: one line of JSON for each call,
// each prefetch, each choice of prefetches and each plan, in one file per process.
//
// The one idea: every figure that is shown anywhere is added up from these lines, so
// that what the running proxy says of itself and what anybody recomputes from the
// files are the same. What happens is handed over as a value and written by a
// goroutine of the log's own; whoever hands it over never waits.
//
//	log := events.Open(events.Options{Dir: dir, Key: key, Each: tally.Add})
//	log.Add(events.Event{Kind: events.Call, Session: "1f00c2", …})
//	log.Close()
//
//	err := events.Read(ctx, files, func(e *events.Event) { tally.Add(e) }, func(p events.Problem) { … })
//
// It leaves out what the lines add up to (telemetry), and what follows from them for
// the configuration (tune).
package events

import "time"

// Version is that of the format. A reader takes files of this version and of older
// ones; lines of a newer one are a [Problem] that names both.
const Version = 1

// Kind says what a line tells of.
type Kind string

// The kinds of lines.
const (
	Begin    Kind = "begin"    // a process: the first line of each file
	Session  Kind = "session"  // a client's session begins
	Call     Kind = "call"     // a call of a client, or of a plan's step, when it has been answered
	Prefetch Kind = "prefetch" // a guess, when it is known what became of it
	Sent     Kind = "sent"     // requests that went upstream and are not in the line of their call: that was told of before; or (Prefetched) of a guess, whose own line comes when its fate is known
	Choice   Kind = "choice"   // what was thought of after an answer, when it is known what would have been right
	Plan     Kind = "plan"     // a plan, when it has ended
	Level    Kind = "level"    // a host or a session may be guessed at more or less freely from now on
	Harm     Kind = "harm"     // a guess did something to others: Why is foreground_wait (LatencyMS), rate_limited, eviction or question
	State    Kind = "state"    // what the limits and the store are like
	End      Kind = "end"      // of a session, or, without one, of the process
)

// Disposition is how a call came by its answer.
type Disposition string

// The dispositions. Every call has exactly one.
const (
	Hit     Disposition = "hit"     // from the store
	Joined  Disposition = "joined"  // from a fetch that another call, or a guess, had begun
	Fetched Disposition = "fetched" // by its upstream
	Failed  Disposition = "failed"  // not at all: it was withdrawn, or its upstream could not be asked
)

// Fate is what became of a prefetch. Every prefetch has exactly one.
type Fate string

// The fates.
const (
	Used     Fate = "used"     // a call was given its answer, which was there
	Late     Fate = "late"     // a call was given its answer, and had to wait for the rest of it
	Wasted   Fate = "wasted"   // nobody was: Cause says why
	Compared Fate = "compared" // a call fetched for itself, and the two were compared
)

// Event is one line. Which fields are there depends on its kind; what is zero is not
// written. Times are those of the proxy's own clock.
type Event struct {
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"-"`                 // written as ts_us, microseconds since 1970: when it began; of choice and level, when it was made
	Process string    `json:"-"`                 // names the process: from the file's name, when read
	Session string    `json:"session,omitempty"` // unique among processes
	Seq     int64     `json:"seq,omitempty"`     // of call and prefetch: counted from 1 in its session, both together

	// Of call and prefetch.
	Upstream   string  `json:"upstream,omitempty"`
	Tool       string  `json:"tool,omitempty"`       // as its upstream names it
	ArgsHash   string  `json:"args_hash,omitempty"`  // 16 hex digits of the canonical arguments, keyed per installation
	Arguments  string  `json:"-"`                    // written as arguments, a JSON object, where they are recorded in full: canonical, secrets taken out
	ArgsBytes  int64   `json:"args_bytes,omitempty"` // how long arguments of more than 64 KiB are: no more than their beginning was hashed, and none of it recorded
	Class      string  `json:"class,omitempty"`      // the call's own side effect class
	ResultHash string  `json:"result_hash,omitempty"`
	LatencyMS  float64 `json:"latency_ms,omitempty"`  // call: from its arrival to its answer; prefetch: of its fetch; plan: of the whole
	UpstreamMS float64 `json:"upstream_ms,omitempty"` // call: of the fetch that it sent itself; 0: it sent none that was answered
	Bytes      int64   `json:"bytes,omitempty"`       // of the result, as the upstream gave it
	Tokens     int64   `json:"tokens,omitempty"`      // an estimate, from the bytes
	IsError    bool    `json:"is_error,omitempty"`    // the answer is an error, or says isError
	Error      string  `json:"error,omitempty"`       // of failed: cancelled, timeout, unavailable, refused or unanswered; of is_error: empty
	Sent       int     `json:"sent,omitempty"`        // tools/call requests that really went to the upstream for it; those of a prefetch are told of in a line of kind sent before
	Host       string  `json:"host,omitempty"`        // whose limits counted

	// Of call.
	Disposition  Disposition `json:"disposition,omitempty"`
	Turn         int         `json:"turn,omitempty"`             // of the model, counted from 1 in its session: calls of one turn were made together; 0: not known
	Plan         int         `json:"plan,omitempty"`             // of a step, and of plan: counted from 1 in its session
	Step         string      `json:"step,omitempty"`             // its id in the plan
	Needs        []string    `json:"needs,omitempty"`            // of a step: ids of the steps whose results it used, or waited for
	Prefetched   bool        `json:"prefetched,omitempty"`       // its answer was fetched, or begun to be, before anybody asked
	UseOf        int64       `json:"use_of,omitempty"`           // the prefetch (Seq) of which it is the first use
	UseOfSession string      `json:"use_of_session,omitempty"`   // whose prefetch that is, where it is another session's
	HiddenMS     float64     `json:"hidden_ms,omitempty"`        // of hit and joined: what the fetch behind the answer took, less what the call waited
	AgeMS        float64     `json:"age_ms,omitempty"`           // of hit and joined: since that fetch began
	PredictedP   float64     `json:"predicted_p,omitempty"`      // of prefetch: how likely it was
	Predicted    int64       `json:"predicted_tokens,omitempty"` // tokens that the answer was expected to have
	Reference    bool        `json:"reference,omitempty"`        // a note that the client already holds the answer stood for it
	NotResent    int64       `json:"not_resent,omitempty"`       // bytes of the answer that did not go to the client, because of that
	Inlined      int         `json:"inlined,omitempty"`          // further answers that were added to this one
	BackedOff    bool        `json:"backed_off,omitempty"`       // served what is older than it should be, as the client keeps asking

	// Of prefetch.
	Fate       Fate   `json:"fate,omitempty"`
	Cause      string `json:"cause,omitempty"`       // of wasted: expired, invalidated, never_asked, evicted, error or dropped
	UsedBy     int64  `json:"used_by_seq,omitempty"` // of used, late and compared: the call (Seq)
	BySession  string `json:"used_by,omitempty"`     // whose call that is, where it is another session's
	After      int64  `json:"after,omitempty"`       // of prefetch and choice: the call (Seq) whose answer made it likely; 0: not known
	Edge       string `json:"edge,omitempty"`        // how it was derived, in words: what follows what, and where its arguments come from
	Configured bool   `json:"configured,omitempty"`  // by a follow_up of the configuration or of a built-in model; else learned

	// Of choice.
	Candidates int            `json:"candidates,omitempty"`  // exact calls that were thought of
	Issued     int            `json:"issued,omitempty"`      // of those: begun
	Reasons    map[string]int `json:"declined,omitempty"`    // of the others: reason → how many
	Top        []Decision     `json:"top,omitempty"`         // the likeliest of them, at most five
	BestMS     float64        `json:"best_ms,omitempty"`     // what the best choice under the same bounds would have hidden, as is known now
	AchievedMS float64        `json:"achieved_ms,omitempty"` // what the choice that was made has hidden of that
	LateCalled int            `json:"late_called,omitempty"` // candidates that were declined, and called all the same
	Unresolved bool           `json:"unresolved,omitempty"`  // the session ended first: the three above count what was known by then

	// Of plan.
	Steps     int   `json:"steps,omitempty"` // calls that its steps made, whatever came of them
	StepsBad  int   `json:"steps_failed,omitempty"`
	Depth     int   `json:"depth,omitempty"`     // calls in its longest chain: a client without plans needs at least as many turns
	BytesIn   int64 `json:"bytes_in,omitempty"`  // of the results of its steps
	BytesOut  int64 `json:"bytes_out,omitempty"` // of its answer
	Cancelled bool  `json:"cancelled,omitempty"`

	// Of level and harm. Of a level Host is whose it is; "" for the session's.
	From  int    `json:"from,omitempty"` // 0 to 4; see package speculate
	To    int    `json:"to,omitempty"`
	Why   string `json:"why,omitempty"`
	Count int64  `json:"n,omitempty"` // of harm: how often

	// Of begin and session.
	V         int      `json:"v,omitempty"` // of begin: the Version of the file
	PID       int      `json:"pid,omitempty"`
	Program   string   `json:"program,omitempty"`   // its version
	Config    string   `json:"config,omitempty"`    // path of the configuration
	Mode      string   `json:"mode,omitempty"`      // of enrichment
	Transport string   `json:"transport,omitempty"` // of begin: stdio or http
	Dir       string   `json:"dir,omitempty"`       // of begin: the working directory
	Upstreams []string `json:"upstreams,omitempty"`
	Client    string   `json:"client,omitempty"` // of session: name and version, as it says

	// Of state.
	Hosts    []Host `json:"hosts,omitempty"`
	Sessions int    `json:"sessions,omitempty"`
	Store    *Store `json:"store,omitempty"`

	// Told to [Log.Add], and never written: what ArgsHash, Arguments and ResultHash are
	// made of. The log keeps RawArguments and changes none of it.
	RawArguments []byte `json:"-"`
	ResultSum    uint64 `json:"-"` // of a result's bytes, by a hash that need not be keyed; 0: there is none
}

// Decision is one candidate of a choice.
type Decision struct {
	Tool    string  `json:"tool"`
	P       float64 `json:"p"`
	Reason  string  `json:"reason,omitempty"`   // why it was declined; "": it was begun
	ValueMS float64 `json:"value_ms,omitempty"` // what it was expected to hide, were it right
	Tokens  int64   `json:"tokens,omitempty"`   // that its answer was expected to have
	Called  bool    `json:"called,omitempty"`   // it was asked for in time
}

// Host is what a host allows at the moment.
type Host struct {
	Host        string  `json:"host"`
	Level       int     `json:"level"`               // 0: guesses are only watched; to 4: more of them than configured
	InFlight    int     `json:"in_flight,omitempty"` // calls
	Waiting     int     `json:"waiting,omitempty"`   // real calls that wait for a place
	Rate        float64 `json:"rate,omitempty"`      // calls per second that the user allows; 0: any number
	Burst       int     `json:"burst,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"` // 0: any number
	Tokens      float64 `json:"tokens,omitempty"`      // in the bucket
	Limited     int64   `json:"limited,omitempty"`     // times that it said it is called too often
	CoolingMS   float64 `json:"cooling_ms,omitempty"`  // for so long nothing is guessed there
	Guesses     int     `json:"guesses_last_hour,omitempty"`
	HarmMS      float64 `json:"harm_ms,omitempty"` // that real calls waited for guesses, so far
}

// Store is what the store of answers holds at the moment.
type Store struct {
	Entries   int   `json:"entries"`
	Bytes     int64 `json:"bytes"`
	Evicted   int64 `json:"evicted,omitempty"`   // so far
	Displaced int64 `json:"displaced,omitempty"` // of those: answers to real calls, for a guess
}
