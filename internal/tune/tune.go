// Package tune works out, from what was recorded and learned, what tuned.toml should
// say of the tools.
//
// The one idea: nothing is worked out twice. What calls cost and what became of
// prefetches stands in the event logs; which calls follow which, and with which
// arguments, the learner of the live proxy has found, or finds in a client's logs when
// they are played to it as if they were live. Here the one is summed up and the other
// filtered, and each line comes with what it rests on:
//
//	t := tune.New(tune.Options{Model: model})
//	err := record.Read(ctx, files, t.Event, problem)
//	t.Calls(calls) // of traces and of clients' logs
//	err = t.Learned("github", state)
//	text := t.Propose().TOML()
//
// The file is written whole from the models as they are without it, so that a second
// run proposes the same. What could make an answer wrong if the record misleads (what a
// tool does, how long its answers stay the same) is advice to paste, and never a
// setting. Errors are no answers: nothing is concluded from them.
//
// It leaves out what the settings do (config, valuemodel), and asks no tool anything.
package tune

import (
	"strings"
	"time"

	"mcpschedd/internal/valuemodel"
)

// Options say how a tuner works. Each is required.
type Options struct {
	Model          func(tool string) *valuemodel.Model // "upstream/tool" → what is known of it without tuned.toml; never nil
	Missing        func(tool string) bool              // "upstream/tool" → its upstream is known to have no such tool
	Secret         func(argument, value string) bool   // whether a constant of that argument, as JSON, may be a secret
	MinProbability float64                             // that a follow-up needs
	Waste          time.Duration                       // hidden waiting that makes up for one wasted prefetch
	MaxAge         time.Duration                       // how long a prefetched answer may be used
}

// least is how often a thing was seen that is proposed.
const least = 10

// Tuner adds up what was recorded. It is not safe for use by several goroutines.
type Tuner struct {
	o       Options
	tools   map[string]*tool     // "upstream/tool" → figures
	answers map[[2]string]answer // tool and hash of arguments → its last answer
	wrote   map[string]time.Time // upstream → when a call last may have changed something
	players map[string]*player   // upstream → learner that recorded calls are played to
	follows map[string][]follow  // trigger → what was learned to follow it
	models  map[string]*valuemodel.Model
	Dropped int // events and calls that name a tool beyond mostTools
}

// New makes a tuner that has seen nothing.
func New(o Options) *Tuner {
	return &Tuner{
		o: o, tools: make(map[string]*tool), answers: make(map[[2]string]answer), wrote: make(map[string]time.Time),
		players: make(map[string]*player), follows: make(map[string][]follow), models: make(map[string]*valuemodel.Model),
	}
}

// model is what is known of a tool without tuned.toml.
func (t *Tuner) model(name string) *valuemodel.Model {
	m := t.models[name]
	if m == nil {
		m = t.o.Model(name)
		if len(t.models) < mostTools {
			t.models[name] = m
		}
	}
	return m
}

// reads reports whether some calls of a tool only read, which all else rests on.
func reads(m *valuemodel.Model) bool { return m.Class.Reads() || m.Classify != "" }

// operators reports whether a layer is the operator's: what is named otherwise than
// those that are built in.
func operators(source string) bool {
	for _, other := range []string{"default", "annotation", "provider ", "learned", "tuned"} {
		if strings.HasPrefix(source, other) {
			return false
		}
	}
	return source != ""
}
