package predict

import (
	"errors"
	"iter"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// reason is why a guess may not be made, whatever its worth; "" if it may. That it
// is only watched is said last, by whoever asks.
func (f *Model) reason(g *Candidate, t *standing) enrich.Reason {
	switch {
	case t.barred || !enrich.Speculatable(t.Model):
		return enrich.NotSpeculatable
	case t.Model.Upstream != f.upstream:
		return enrich.Origin
	case t.Model.Disclosure != valuemodel.SameService && !g.Why.Free:
		return enrich.Disclosure
	}
	if j := f.checked.of(t.Tool, g.Key.Arguments); j.reason != "" {
		if j.spent {
			f.stats.Unchecked++
		}
		return j.reason
	}
	if g.Why.Max > 0 && g.Why.Rank >= g.Why.Max {
		return enrich.Cap
	}
	return ""
}

// Again is why a guess that has waited may not be made any more: its tool may have been
// barred, or its model or schema may have changed.
func (s *Session) Again(g *Candidate) enrich.Reason { return s.f.again(g) }

// again is why a guess that was made a while ago may not be made now, as far as it
// can be told here. If it may, it is under the model that holds now.
func (f *Model) again(g *Candidate) enrich.Reason {
	t := f.standing(g.Key.Tool)
	r := f.reason(g, &t)
	if r == "" && t.shadow {
		r = enrich.Shadow
	}
	if r == "" || r == enrich.Shadow {
		g.Model = t.Model
	}
	return r
}

// check is what the arguments of a call say against it.
func (v *verdicts) check(t Tool, arguments string) (j judged) {
	raw := []byte(arguments)
	if t.Model.Classify != "" {
		get := func(name string) []byte { return jsonrpc.Get(raw, name) }
		if !t.Model.ClassOf(get, argumentNames(raw)).Reads() {
			return judged{reason: enrich.NotSpeculatable}
		}
	}
	if t.Schema == nil {
		return judged{}
	}
	if err := t.Schema.CheckWithin(raw, &v.left); err != nil {
		j.reason, j.spent = enrich.Schema, err == schema.ErrSpent
		j.fault, _ = errors.AsType[*schema.Fault](err)
	}
	return j
}

func argumentNames(object []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for m := range jsonrpc.Members(object) {
			if !yield(string(m.Name)) {
				return
			}
		}
	}
}

// verdicts remember what was said of arguments, for the same calls come up again
// with every turn, and to parse a command or to walk a schema costs more than all
// else about a guess. How much of that is done for one answer is bounded: whoever
// wrote the schema may have made each check as dear as it can be.
type verdicts struct {
	known map[verdict]judged
	bytes int // of their arguments
	left  int // effort for the answer that is looked at
}

// maxEffort is for all checks that one answer brings, which is about 40 ms at most. A
// check against half of the input schemas of 22 real servers takes about 100 units or less,
// against the dearest some thousands.
const maxEffort = 2 * schema.MaxEffort

// begin begins with another answer.
func (v *verdicts) begin() { v.left = maxEffort }

// judged is what is said of arguments.
type judged struct {
	reason enrich.Reason // "": nothing against them
	fault  *schema.Fault // the first thing that the schema has against them
	spent  bool          // there was no effort left to look at them: with the next answer there may be
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

func (v *verdicts) of(t Tool, arguments string) judged {
	if t.Schema == nil && t.Model.Classify == "" {
		return judged{}
	}
	k := verdict{t.Model, t.Schema, arguments}
	j, known := v.known[k]
	if known {
		return j
	}
	if j = v.check(t, arguments); j.spent {
		return j
	}
	if v.known == nil || len(v.known) >= maxVerdicts || v.bytes+len(arguments) > maxVerdictBytes {
		v.known, v.bytes = map[verdict]judged{}, 0
	}
	v.known[k] = j
	v.bytes += len(arguments)
	return j
}

// spread asks for the percentiles that enrich reckons with.
func spread(of func(string, float64) time.Duration, tool string) enrich.Spread {
	return enrich.Spread{P10: of(tool, 0.1), P50: of(tool, 0.5), P90: of(tool, 0.9)}
}
