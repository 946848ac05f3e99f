package record

import (
	"encoding/json"
	"time"
)

// Version is the version of the log format. A file of another version is not read but reported
// as a [Problem].
const Version = 2

// Kind is the kind of an event.
type Kind string

// The kinds of lines.
const (
	Begin    Kind = "begin"    // a process started; the first line of each of its files
	Session  Kind = "session"  // a client's session begins
	Call     Kind = "call"     // a call of a client or of a plan's step, written when it is answered
	Prefetch Kind = "prefetch" // a prefetch, written when its fate is known
	Decision Kind = "choice"   // a decision which candidates to prefetch, written when it is known which of them were called
	Plan     Kind = "plan"     // a plan, written when it has ended
	Level    Kind = "level"    // a change of the prefetch level of a host or a session
	Harm     Kind = "harm"     // harm that a prefetch did: Why is foreground_wait (LatencyMS), rate_limited, eviction or question
	End      Kind = "end"      // the end of a session, or of the process if Session is empty
)

// Disposition says where the answer to a call came from.
type Disposition string

// The dispositions. Every call has exactly one.
const (
	Hit     Disposition = "hit"     // from the store
	Joined  Disposition = "joined"  // from a fetch that another call or a prefetch had started
	Fetched Disposition = "fetched" // from a fetch of its own
	Failed  Disposition = "failed"  // no answer: the call was cancelled, or its upstream was unavailable
)

// Fate is the outcome of a prefetch.
type Fate string

// The fates. Every prefetch has exactly one.
const (
	Used     Fate = "used"     // a call was answered with it at once
	Late     Fate = "late"     // a call was answered with it, after waiting for the rest of the fetch
	Wasted   Fate = "wasted"   // no call used its answer; Cause says why
	Compared Fate = "compared" // its answer was only compared with the one that a call fetched itself
)

// Event is one line of the log, as encoding/json writes it. It has more than 15 fields because
// it is a file format: one flat object for all kinds can be filtered with jq. Which fields are
// set depends on the kind; zero fields are not written. Those without the tag span:"-" are
// attributes of OpenTelemetry spans too.
type Event struct {
	Kind    Kind      `json:"kind" span:"-"`
	At      time.Time `json:"ts,omitzero" span:"-"`       // start time, or of decision and level the time of the decision
	Process string    `json:"-" span:"-"`                 // name of the process, which is part of the file's name
	Session string    `json:"session,omitempty" span:"-"` // unique among all processes
	Seq     int64     `json:"seq,omitempty"`              // number of a call or prefetch: one sequence for both, from 1 in each session

	// Of call and prefetch.
	Upstream   string          `json:"upstream,omitempty"`
	Tool       string          `json:"tool,omitempty" span:"-"`        // name of the tool at its upstream; of a decision, the tool of the answer that triggered it
	ArgsHash   string          `json:"args_hash,omitempty" span:"-"`   // keyed hash of the canonical arguments, 16 hex digits; the key is per installation
	Arguments  json.RawMessage `json:"arguments,omitempty" span:"-"`   // canonical JSON object without secrets; empty unless arguments are recorded in full
	Class      string          `json:"class,omitempty"`                // side effect class of this call; indeterminate if nothing classifies its tool, else may_write if it may be a write
	ResultHash string          `json:"result_hash,omitempty" span:"-"` // keyed like ArgsHash
	LatencyMS  float64         `json:"latency_ms,omitempty" span:"-"`  // duration of a call from arrival to answer, of a prefetch's fetch, or of a whole plan
	UpstreamMS float64         `json:"upstream_ms,omitempty"`          // duration of the call's own fetch; zero if there was none, it was not answered, or the client was asked meanwhile
	Bytes      int64           `json:"bytes,omitempty"`                // size of the upstream's result
	Tokens     int64           `json:"tokens,omitempty"`               // estimated from the bytes
	IsError    bool            `json:"is_error,omitempty"`             // the answer is an error, or has isError set
	Error      string          `json:"error,omitempty"`                // for failed calls: cancelled, timeout, unavailable, refused or unanswered
	Sent       int             `json:"sent,omitempty"`                 // tools/call requests sent upstream
	Host       string          `json:"host,omitempty"`                 // the host of the limits that applied

	// Of call.
	Disposition     Disposition `json:"disposition,omitempty"`
	Turn            int         `json:"turn,omitempty"`                    // turn of the model, from 1 in each session: the calls of one turn were made together; 0 if not known
	Plan            int         `json:"plan,omitempty"`                    // number of the plan, for a plan and its steps, from 1 in each session
	Step            string      `json:"step,omitempty"`                    // id of the step in the plan
	Prefetched      bool        `json:"prefetched,omitempty"`              // the fetch of the answer had started before the call
	UseOf           int64       `json:"use_of,omitempty"`                  // Seq of the prefetch that this call was the first to use
	UseOfSession    string      `json:"use_of_session,omitempty" span:"-"` // session of that prefetch, if it is another session
	HiddenMS        float64     `json:"hidden_ms,omitempty"`               // for hit and joined: duration of the fetch behind the answer, less the call's own wait
	PredictedP      float64     `json:"predicted_p,omitempty"`             // for prefetch: predicted probability of the call
	PredictedTokens int64       `json:"predicted_tokens,omitempty"`        // predicted tokens of the answer
	NotResent       int64       `json:"not_resent,omitempty"`              // bytes saved by a note, in place of the answer, that the client already has it
	Inlined         int         `json:"inlined,omitempty"`                 // number of other answers added to this one
	BackedOff       bool        `json:"backed_off,omitempty"`              // answered with an older error than usual, because the client keeps repeating the call

	// Of prefetch.
	Fate       Fate   `json:"fate,omitempty"`
	Cause      string `json:"cause,omitempty"`            // for wasted: a cause of glossary.json
	UsedBy     int64  `json:"used_by_seq,omitempty"`      // for used, late and compared: Seq of the call
	BySession  string `json:"used_by,omitempty" span:"-"` // session of that call, if it is another session
	After      int64  `json:"after,omitempty" span:"-"`   // for prefetch and decision: Seq of the call with the answer that triggered it; 0 if not known
	Edge       string `json:"edge,omitempty"`             // derivation in words: which tool follows which, and where the arguments come from
	Configured bool   `json:"configured,omitempty"`       // derived from a follow_up of the configuration or of a built-in model; otherwise learned

	// Of decision.
	Candidates int            `json:"candidates,omitempty"`
	Issued     int            `json:"issued,omitempty"`      // candidates that were prefetched
	Declined   map[string]int `json:"declined,omitempty"`    // reason of glossary.json → number of candidates declined for it
	Top        []Candidate    `json:"top,omitempty"`         // the most probable candidates, at most five
	LateCalled int            `json:"late_called,omitempty"` // candidates that were declined and then called

	// Of plan.
	Steps     int   `json:"steps,omitempty"`     // calls made by its steps, including failed ones
	Depth     int   `json:"depth,omitempty"`     // calls in its longest chain: a client without plans needs at least that many turns
	BytesIn   int64 `json:"bytes_in,omitempty"`  // size of its steps' results
	BytesOut  int64 `json:"bytes_out,omitempty"` // size of its answer
	Cancelled bool  `json:"cancelled,omitempty"`

	// Of level and harm. A level without Host belongs to the session.
	From  int    `json:"from,omitempty"` // 0 to 4; see package speculate
	To    int    `json:"to,omitempty"`
	Why   string `json:"why,omitempty"`
	Count int64  `json:"n,omitempty"` // of harm: number of times

	// Of begin and session.
	V         int    `json:"v,omitempty"` // of begin: the Version of the file
	PID       int    `json:"pid,omitempty"`
	Program   string `json:"program,omitempty"`   // its version
	Config    string `json:"config,omitempty"`    // path of the configuration
	Mode      string `json:"mode,omitempty"`      // of enrichment
	Transport string `json:"transport,omitempty"` // of begin: stdio, http or daemon
	Dir       string `json:"dir,omitempty"`       // of begin: the working directory
	Client    string `json:"client,omitempty"`    // of session: name and version that the client reports

	// Input of [Log.Add] for ArgsHash, Arguments and ResultHash. The log keeps a reference to
	// RawArguments and does not modify it.
	RawArguments []byte `json:"-" span:"-"`
	ResultSum    uint64 `json:"-" span:"-"` // hash of the result's bytes, need not be keyed; 0 if there is no result
}

// Candidate is one candidate of a decision.
type Candidate struct {
	Tool    string  `json:"tool"`
	P       float64 `json:"p"`
	Reason  string  `json:"reason,omitempty"`   // why it was declined; empty if it was prefetched
	ValueMS float64 `json:"value_ms,omitempty"` // latency that it was expected to hide if it was called
	Tokens  int64   `json:"tokens,omitempty"`   // predicted tokens of its answer
	Called  bool    `json:"called,omitempty"`   // it was called in time
	Differs string  `json:"differs,omitempty"`  // arguments in which it differs from other candidates of its tool: names, and values if arguments are recorded in full

	RawArguments []byte `json:"-"` // input of [Log.Add]
}
