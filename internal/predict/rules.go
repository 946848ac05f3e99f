package predict

import (
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/valuemodel"
)

// refusal returns why a candidate must not be prefetched, whatever its gain; "" if it may be.
// It never returns Shadow.
func (m *Model) refusal(c *Candidate, t *target) enrich.Reason {
	switch {
	case t.barred || !enrich.Speculatable(t.Model):
		return enrich.NotSpeculatable
	case t.Model.Upstream != m.upstream:
		return enrich.Origin
	case t.Model.Disclosure != valuemodel.SameService && !c.Why.Independent:
		return enrich.Disclosure
	}
	return m.refuses(t.Tool, c.Key.Arguments)
}

// Recheck returns why a candidate that has waited must not be prefetched any more: its tool
// may have been barred, or its model or schema may have changed. If it still may be, Recheck
// sets its current model. Like refusal, it never returns Shadow.
func (s *Session) Recheck(c *Candidate) enrich.Reason {
	t := s.m.target(c.Key.Tool)
	why := s.m.refusal(c, t)
	if why == "" {
		c.Model = t.Model
	}
	return why
}

// checkKey is the key of a cached check. Models and schemas are compared by identity, so
// reloaded rules are checked again.
type checkKey struct {
	model     *valuemodel.Model
	schema    *schema.Schema
	arguments string
}

const (
	maxChecks  = 2048
	maxChecked = 4 << 10 // bytes of the longest arguments with a cached check
)

// refuses returns why the arguments of a call must not be prefetched; "" if they may be.
//
// Checks are cached: the same candidates recur every turn, and parsing a command or walking
// a schema costs more than all other steps.
func (m *Model) refuses(t Tool, arguments string) (why enrich.Reason) {
	if t.Schema == nil && t.Model.Classify == "" {
		return ""
	}
	k := checkKey{t.Model, t.Schema, arguments}
	if why, known := m.checks.Get(k); known {
		return why
	}
	raw := []byte(arguments)
	if t.Model.Classify != "" {
		get := func(name string) []byte { return jsonrpc.Get(raw, name) }
		if !t.Model.ClassOf(get, jsonrpc.Names(raw)).Reads() {
			why = enrich.NotSpeculatable
		}
	}
	if why == "" && t.Schema != nil && t.Schema.Check(raw) != nil {
		why = enrich.Schema
	}
	if len(arguments) <= maxChecked {
		m.checks.Add(k, why)
	}
	return why
}
