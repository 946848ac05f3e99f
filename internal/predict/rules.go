package predict

import (
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Check returns why a candidate must not be prefetched now, whatever its gain. If it may be, Check
// returns "" and sets the candidate's current model: since the prediction, its tool may have been
// barred, or its model or schema may have changed.
func (s *Session) Check(c *Candidate) enrich.Reason {
	t := s.m.opt.Tool(c.Key.Tool)
	switch {
	case s.m.Barred(c.Key.Tool) != "" || !enrich.Speculatable(t.Model):
		return enrich.NotSpeculatable
	case t.Model.Upstream != s.m.upstream:
		return enrich.Origin
	case t.Model.Disclosure != valuemodel.SameService && !c.Why.Independent:
		return enrich.Disclosure
	}
	if c.passed == t { // it waits, and a check may take milliseconds
		return ""
	}
	why := t.refuses(c.Key.Arguments)
	if why == "" {
		c.passed, c.Model = t, t.Model
	}
	return why
}

// refuses returns why the arguments of a call must not be prefetched; "" if they may be.
func (t *Tool) refuses(arguments string) enrich.Reason {
	raw := []byte(arguments)
	if t.Model.Classify != "" {
		get := func(name string) []byte { return jsonrpc.Get(raw, name) }
		if !t.Model.ClassOf(get, jsonrpc.Names(raw)).Reads() {
			return enrich.NotSpeculatable
		}
	}
	if t.Schema != nil && t.Schema.Check(raw) != nil {
		return enrich.Schema
	}
	return ""
}
