// Package tune derives the settings of tuned.toml from recorded calls and learned state.
//
// Costs of calls and outcomes of prefetches come from the event logs. Follow-ups come from the
// proxy's learner: from its saved state, or by replaying a client's logs to it. The package sums
// up the former, filters the latter, and states the evidence for each setting:
//
//	t := tune.New(tune.Options{Model: model})
//	err := record.Read(ctx, files, t.AddEvent, problem)
//	t.AddCalls(calls) // of traces and of clients' logs
//	err = t.AddLearned("github", state)
//	text := t.Propose().TOML()
//
// The whole file is generated from the models without tuned.toml, so a second run proposes the
// same. Settings that could cause wrong answers if the record misleads (classes, freshness) are
// only given as advice to paste. Errors are not counted as answers.
//
// The package calls no tools.
package tune

import (
	"strings"
	"time"

	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// Options configure a Tuner. All fields are required.
type Options struct {
	Model          func(tool string) *valuemodel.Model // returns the model of "upstream/tool" without tuned.toml, not nil
	Missing        func(tool string) bool              // reports whether the upstream is known not to offer "upstream/tool"
	Secret         func(argument, value string) bool   // reports whether a constant argument, as JSON, may be a secret
	MinProbability float64                             // minimum probability of a follow-up
	Waste          time.Duration                       // hidden time that outweighs one wasted prefetch
	MaxAge         time.Duration                       // how long a prefetched answer may be used
}

// minEvidence is the minimum number of observations behind a proposal.
const minEvidence = 10

// Tuner collects evidence. It is not safe for concurrent use.
type Tuner struct {
	o         Options
	tools     map[string]*toolStats     // "upstream/tool" → figures
	answers   map[[2]string]answer      // tool and hash of arguments → last answer
	lastWrite map[string]time.Time      // upstream → time of the last call that may write
	players   map[string]*replay.Player // upstream → player whose learner has the recorded calls
	follows   map[string][]follow       // trigger → learned follow-ups
	models    map[string]*valuemodel.Model
	Dropped   int // events and calls of tools beyond maxTools
}

// New returns an empty Tuner.
func New(o Options) *Tuner {
	return &Tuner{
		o: o, tools: make(map[string]*toolStats), answers: make(map[[2]string]answer), lastWrite: make(map[string]time.Time),
		players: make(map[string]*replay.Player), follows: make(map[string][]follow), models: make(map[string]*valuemodel.Model),
	}
}

// model returns the model of a tool without tuned.toml.
func (t *Tuner) model(name string) *valuemodel.Model {
	m := t.models[name]
	if m == nil {
		m = t.o.Model(name)
		if len(t.models) < maxTools {
			t.models[name] = m
		}
	}
	return m
}

// reads reports whether some calls of a tool only read. Only these are cached and prefetched.
func reads(m *valuemodel.Model) bool { return m.Class.Reads() || m.Classify != "" }

// isOperator reports whether a layer is the operator's, which is any layer that is not built in.
func isOperator(source string) bool {
	for _, other := range []string{"default", "annotation", "provider ", "learned", "tuned"} {
		if strings.HasPrefix(source, other) {
			return false
		}
	}
	return source != ""
}
