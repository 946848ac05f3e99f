package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"
)

// Version is that of the format of the log. Files of this version are read; lines of a
// newer one are a [Problem] that names both.
const Version = 1

// Kind says what a line tells of.
type Kind string

// The kinds of lines.
const (
	Begin    Kind = "begin"    // a process: the first line of each file
	Session  Kind = "session"  // a client's session begins
	Call     Kind = "call"     // a call of a client, or of a plan's step, when it has been answered
	Prefetch Kind = "prefetch" // a prefetch, when its fate is known
	Sent     Kind = "sent"     // requests that went upstream after the line of their call; or (Prefetched) of a prefetch whose own line comes later
	Choice   Kind = "choice"   // a choice among candidates, when it is known which of them were called
	Plan     Kind = "plan"     // a plan, when it has ended
	Level    Kind = "level"    // the prefetch level of a host or a session has changed
	Harm     Kind = "harm"     // what a prefetch did to others: Why is foreground_wait (LatencyMS), rate_limited, eviction or question
	End      Kind = "end"      // of a session, or, without one, of the process
)

// Disposition is how a call came by its answer.
type Disposition string

// The dispositions. Every call has exactly one.
const (
	Hit     Disposition = "hit"     // from the store
	Joined  Disposition = "joined"  // from a fetch that another call, or a prefetch, had begun
	Fetched Disposition = "fetched" // by its upstream
	Failed  Disposition = "failed"  // not at all: it was withdrawn, or its upstream could not be asked
)

// Fate is what became of a prefetch.
type Fate string

// The fates. Every prefetch has exactly one.
const (
	Used     Fate = "used"     // a call was given its answer, which was there
	Late     Fate = "late"     // a call was given its answer, and had to wait for the rest of the fetch
	Wasted   Fate = "wasted"   // no call was: Cause says why
	Compared Fate = "compared" // a call fetched for itself, and the two answers were compared
)

// Event is one line of the log. It has more than 15 fields because it is a file format:
// one flat object for all kinds can be filtered with jq and read back by every version.
// Which fields are set depends on the kind; what is zero is not written. A span tag is the
// name of what a span says of it, where that is another; "-": nothing.
type Event struct {
	Kind    Kind      `json:"kind" span:"-"`
	At      time.Time `json:"-"`                          // written as ts_us, microseconds since 1970: when it began; of choice and level, when it was made
	Process string    `json:"-"`                          // names the process: from the file's name, when read
	Session string    `json:"session,omitempty" span:"-"` // unique among processes
	Seq     int64     `json:"seq,omitempty"`              // of call and prefetch: counted from 1 in the session, both together

	// Of call and prefetch.
	Upstream   string  `json:"upstream,omitempty"`
	Tool       string  `json:"tool,omitempty" span:"-"`       // as its upstream names it
	ArgsHash   string  `json:"args_hash,omitempty" span:"-"`  // 16 hex digits of the canonical arguments, keyed per installation
	Arguments  string  `json:"-"`                             // written as arguments, a JSON object, where they are recorded in full: canonical, secrets taken out
	ArgsBytes  int64   `json:"args_bytes,omitempty" span:"-"` // length of arguments over 64 KiB: only their beginning is hashed, and they are not recorded
	Class      string  `json:"class,omitempty"`               // the call's own side effect class
	ResultHash string  `json:"result_hash,omitempty" span:"-"`
	LatencyMS  float64 `json:"latency_ms,omitempty" span:"-"`           // call: from its arrival to its answer; prefetch: of its fetch; plan: of the whole
	UpstreamMS float64 `json:"upstream_ms,omitempty"`                   // call: of the fetch that it sent itself; 0: it sent none that was answered
	Bytes      int64   `json:"bytes,omitempty" span:"result_bytes"`     // of the result, as the upstream gave it
	Tokens     int64   `json:"tokens,omitempty" span:"result_tokens"`   // estimated from the bytes
	IsError    bool    `json:"is_error,omitempty"`                      // the answer is an error, or says isError
	Error      string  `json:"error,omitempty"`                         // of failed: cancelled, timeout, unavailable, refused or unanswered; of is_error: empty
	Sent       int     `json:"sent,omitempty" span:"upstream_requests"` // tools/call requests that went to the upstream for it; those of a prefetch are in a line of kind sent before
	Host       string  `json:"host,omitempty"`                          // the host whose limits counted

	// Of call.
	Disposition  Disposition `json:"disposition,omitempty"`
	Turn         int         `json:"turn,omitempty"`                               // of the model, counted from 1 in its session: calls of one turn were made together; 0: not known
	Plan         int         `json:"plan,omitempty"`                               // of a step, and of plan: counted from 1 in its session
	Step         string      `json:"step,omitempty"`                               // its id in the plan
	Needs        []string    `json:"needs,omitempty"`                              // of a step: ids of the steps whose results it used, or waited for
	Prefetched   bool        `json:"prefetched,omitempty"`                         // its answer was fetched, or begun to be, before the call
	UseOf        int64       `json:"use_of,omitempty"`                             // the prefetch (Seq) of which it is the first use
	UseOfSession string      `json:"use_of_session,omitempty" span:"-"`            // the session of that prefetch, where it is another one
	HiddenMS     float64     `json:"hidden_ms,omitempty"`                          // of hit and joined: what the fetch behind the answer took, less what the call waited
	AgeMS        float64     `json:"age_ms,omitempty"`                             // of hit and joined: since that fetch began
	PredictedP   float64     `json:"predicted_p,omitempty"`                        // of prefetch: how likely it was
	Predicted    int64       `json:"predicted_tokens,omitempty"`                   // tokens that the answer was expected to have
	Reference    bool        `json:"reference,omitempty"`                          // a note that the client already holds the answer stood for it
	NotResent    int64       `json:"not_resent,omitempty" span:"bytes_not_resent"` // bytes of the answer that were not sent, because of that
	Inlined      int         `json:"inlined,omitempty"`                            // further answers that were added to this one
	BackedOff    bool        `json:"backed_off,omitempty"`                         // answered with an older error than usual, because the client keeps asking

	// Of prefetch.
	Fate       Fate   `json:"fate,omitempty"`
	Cause      string `json:"cause,omitempty"`                      // of wasted: a key of [Causes]
	UsedBy     int64  `json:"used_by_seq,omitempty" span:"used_by"` // of used, late and compared: the call (Seq)
	BySession  string `json:"used_by,omitempty" span:"-"`           // the session of that call, where it is another one
	After      int64  `json:"after,omitempty" span:"-"`             // of prefetch and choice: the call (Seq) whose answer made it likely; 0: not known
	Edge       string `json:"edge,omitempty"`                       // how it was derived, in words: what follows what, and where its arguments come from
	Configured bool   `json:"configured,omitempty"`                 // by a follow_up of the configuration or of a built-in model; else learned

	// Of choice.
	Candidates int            `json:"candidates,omitempty"`
	Issued     int            `json:"issued,omitempty"`      // candidates that were fetched
	Reasons    map[string]int `json:"declined,omitempty"`    // a key of [Reasons] → how many candidates were not
	Top        []Decision     `json:"top,omitempty"`         // the likeliest candidates, at most five
	BestMS     float64        `json:"best_ms,omitempty"`     // what the best choice under the same bounds would have hidden, as is known now
	AchievedMS float64        `json:"achieved_ms,omitempty"` // what the choice that was made has hidden of that
	LateCalled int            `json:"late_called,omitempty"` // candidates that were declined, and called all the same
	Unresolved bool           `json:"unresolved,omitempty"`  // the session ended first: the three above count what was known by then

	// Of plan.
	Steps     int   `json:"steps,omitempty"` // calls that its steps made, failed ones included
	StepsBad  int   `json:"steps_failed,omitempty"`
	Depth     int   `json:"depth,omitempty"`     // calls in its longest chain: a client without plans needs at least as many turns
	BytesIn   int64 `json:"bytes_in,omitempty"`  // of the results of its steps
	BytesOut  int64 `json:"bytes_out,omitempty"` // of its answer
	Cancelled bool  `json:"cancelled,omitempty"`

	// Of level and harm. A level without Host is the session's.
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
	Transport string   `json:"transport,omitempty"` // of begin: stdio, http or daemon
	Dir       string   `json:"dir,omitempty"`       // of begin: the working directory
	Upstreams []string `json:"upstreams,omitempty"`
	Client    string   `json:"client,omitempty"` // of session: name and version, as the client says
	Killed    bool     `json:"-"`                // of end: the process did not say so; never written

	// Given to [Log.Add], and never written: what ArgsHash, Arguments and ResultHash are
	// made of. The log keeps RawArguments and changes none of it.
	RawArguments []byte `json:"-"`
	ResultSum    uint64 `json:"-"` // hash of a result's bytes, which need not be keyed; 0: there is none
}

// Decision is one candidate of a choice.
type Decision struct {
	Tool    string  `json:"tool"`
	P       float64 `json:"p"`
	Reason  string  `json:"reason,omitempty"`   // why it was declined; "": it was fetched
	ValueMS float64 `json:"value_ms,omitempty"` // what it was expected to hide if it was called
	Tokens  int64   `json:"tokens,omitempty"`   // that its answer was expected to have
	Called  bool    `json:"called,omitempty"`   // a call for it came in time
	Differs string  `json:"differs,omitempty"`  // the arguments in which it differs from others of its tool: their names, and their values where arguments are recorded in full

	RawArguments []byte `json:"-"` // given to [Log.Add], and never written
}

// fields are an event without its methods, so that encoding/json uses the tags above.
type fields Event

// line is an event as it is written: the members of the two are one object.
type line struct {
	Kind Kind  `json:"kind"`
	AtUS int64 `json:"ts_us,omitempty"`
	*fields
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// MarshalJSON writes an event as one line, without its end.
func (e Event) MarshalJSON() ([]byte, error) {
	text, err := newEncoder().encode(&e)
	return bytes.TrimSuffix(text, newline), err
}

// UnmarshalJSON reads one line. Members that it does not know are left out, and kinds that
// it does not know are kept: both come from later programs.
func (e *Event) UnmarshalJSON(text []byte) error {
	*e = Event{}
	l := line{fields: (*fields)(e)}
	if err := json.Unmarshal(text, &l); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s: cannot be a %s", path.Ext("." + wrong.Field)[1:], wrong.Value)
		}
		return err
	}
	if l.Kind == "" {
		return errors.New("not an event: it has no kind")
	}
	e.Kind = l.Kind
	if bytes.HasPrefix(l.Arguments, []byte("{")) {
		e.Arguments = string(l.Arguments)
	}
	if l.AtUS != 0 {
		e.At = time.UnixMicro(min(max(l.AtUS, 0), lastMoment)).UTC()
	}
	return nil
}

var newline = []byte("\n")
