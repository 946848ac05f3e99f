package forecast

import (
	"iter"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// guessable reports whether a model allows any guess at the tool.
func guessable(m *valuemodel.Model) bool {
	return m.Speculate != nil && *m.Speculate &&
		(m.Volatile == nil || !*m.Volatile) &&
		(m.Class.Reads() || m.Classify != "")
}

// reason is why a guess may not be made, whatever its worth; "" if it may. That it
// is only watched is said last, by whoever asks.
func (f *Forecast) reason(g *Guess, t *subject) enrich.Reason {
	switch {
	case t.Model == nil || t.barred || !guessable(t.Model):
		return enrich.NotSpeculatable
	case t.Model.Upstream != f.upstream:
		return enrich.Origin
	case t.Model.Disclosure != valuemodel.SameService && !g.free:
		return enrich.Disclosure
	}
	if r := f.checked.of(t.Tool, g.Arguments); r != "" {
		return r
	}
	if g.Max > 0 && g.Rank >= g.Max {
		return enrich.Cap
	}
	return ""
}

// check is what the arguments of a call say against it.
func check(t Tool, arguments string) enrich.Reason {
	raw := []byte(arguments)
	if t.Model.Classify != "" {
		get := func(name string) []byte { return jsonrpc.Get(raw, name) }
		if !t.Model.ClassOf(get, names(raw)).Reads() {
			return enrich.NotSpeculatable
		}
	}
	if t.Schema != nil && t.Schema.Check(raw) != nil {
		return enrich.Schema
	}
	return ""
}

func names(object []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for m := range jsonrpc.Members(object) {
			if !yield(string(m.Name)) {
				return
			}
		}
	}
}

// verdicts remember what [check] said, for the same calls come up again with every
// turn, and to parse a command or to walk a schema costs more than all else about
// a guess.
type verdicts struct {
	known map[verdict]enrich.Reason
	bytes int // of their arguments
}

// verdict is what was asked. The model and the schema are compared by identity: a
// tool whose rules were read anew is checked anew.
type verdict struct {
	model     *valuemodel.Model
	schema    *schema.Schema
	arguments string
}

const (
	maxVerdicts     = 2048
	maxVerdictBytes = 512 << 10
)

func (v *verdicts) of(t Tool, arguments string) enrich.Reason {
	if t.Schema == nil && t.Model.Classify == "" {
		return ""
	}
	k := verdict{t.Model, t.Schema, arguments}
	r, known := v.known[k]
	if known {
		return r
	}
	if v.known == nil || len(v.known) >= maxVerdicts || v.bytes+len(arguments) > maxVerdictBytes {
		v.known, v.bytes = map[verdict]enrich.Reason{}, 0
	}
	r = check(t, arguments)
	v.known[k] = r
	v.bytes += len(arguments)
	return r
}

// spread asks for the percentiles that enrich reckons with.
func spread(of func(string, float64) time.Duration, tool string) enrich.Spread {
	return enrich.Spread{P10: of(tool, 0.1), P50: of(tool, 0.5), P90: of(tool, 0.9)}
}
