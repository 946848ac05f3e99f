package predict

import (
	"errors"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// reason is why a candidate may not be made, whatever its worth; "" if it may. That it
// is only watched is not among the reasons.
func (m *Model) reason(c *Candidate, t *target) enrich.Reason {
	switch {
	case t.barred || !enrich.Speculatable(t.Model):
		return enrich.NotSpeculatable
	case t.Model.Upstream != m.upstream:
		return enrich.Origin
	case t.Model.Disclosure != valuemodel.SameService && !c.Why.Independent:
		return enrich.Disclosure
	}
	return m.checks.of(t.Tool, c.Key.Arguments)
}

// Again is why a candidate that has waited may not be made any more, as far as it can be
// told here: its tool may have been barred, or its model or schema may have changed. If it
// may, it is under the model that holds now.
func (s *Session) Again(c *Candidate) enrich.Reason {
	s.m.checks.begin()
	t := s.m.target(c.Key.Tool)
	why := s.m.reason(c, t)
	if why == "" {
		c.Model = t.Model
		if t.shadow {
			why = enrich.Shadow
		}
	}
	return why
}

// checks remember what was said of arguments, for the same calls come up again
// with every turn, and to parse a command or to walk a schema costs more than all
// else about a candidate. How much of that is done for one answer is bounded: a server
// may have made its schema such that each check is as dear as it can be.
type checks struct {
	known *simplelru.LRU[check, enrich.Reason]
	left  int // effort for the answer that is looked at
}

// check is what was asked. The model and the schema are compared by identity: a
// tool is checked anew once its rules were read anew.
type check struct {
	model     *valuemodel.Model
	schema    *schema.Schema
	arguments string
}

const (
	maxChecks = 2048
	maxCheck  = 4 << 10 // bytes of arguments that are remembered
)

// maxEffort is for all checks that one answer brings, which is about 40 ms at most. A
// check against half of the input schemas of 22 real servers takes about 100 units or less,
// against the dearest some thousands.
const maxEffort = 2 * schema.MaxEffort

// begin begins with another answer.
func (c *checks) begin() { c.left = maxEffort }

// of is what the arguments of a call say against it. Where there is no effort left to look at
// them, they are taken for unfit: with the next answer there may be.
func (c *checks) of(t Tool, arguments string) (why enrich.Reason) {
	if t.Schema == nil && t.Model.Classify == "" {
		return ""
	}
	if c.known == nil {
		c.known, _ = simplelru.NewLRU[check, enrich.Reason](maxChecks, nil) // an error: no size
	}
	k := check{t.Model, t.Schema, arguments}
	if why, known := c.known.Get(k); known {
		return why
	}
	raw, spent := []byte(arguments), false
	if t.Model.Classify != "" {
		get := func(name string) []byte { return jsonrpc.Get(raw, name) }
		if !t.Model.ClassOf(get, jsonrpc.Names(raw)).Reads() {
			why = enrich.NotSpeculatable
		}
	}
	if why == "" && t.Schema != nil {
		if err := t.Schema.CheckWithin(raw, &c.left); err != nil {
			why, spent = enrich.Schema, errors.Is(err, schema.ErrSpent)
		}
	}
	if !spent && len(arguments) <= maxCheck {
		c.known.Add(k, why)
	}
	return why
}
