package replay

import (
	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// theLease is the single upstream that has all recorded tools.
var theLease = &speculate.Lease{Instance: 1}

// callClass is the classification of a call by the value model.
type callClass struct {
	model  *valuemodel.Model
	host   string
	effect call.Effect
	query  dedup.Query // without a scope; without a key if only the upstream may answer the call
	read   bool        // it counts as a read: all calls of its tool may be prefetched
}

// classify returns what a call may change, and whether the store may answer it. It ignores the
// file that an answer depends on, since the files of the recording are not available.
func (o *Options) classify(c callKey) callClass {
	m := o.Model(c.tool)
	out := callClass{model: m, read: m.Class.Reads() && m.Speculate != nil && *m.Speculate}
	raw := []byte(c.arguments)
	index := jsonrpc.NewIndex(raw)
	args, names := index.Get, jsonrpc.Names(raw)
	out.host = m.HostOf(args)
	class := m.ClassOf(args, names)
	if !class.Reads() {
		// Git configuration of the recorded repositories is not available and assumed to be the default.
		if _, quiet := m.Quiet(args, names); !quiet {
			out.effect = m.Writes(args)
		}
		return out
	}
	out.query = dedup.Query{
		Key: call.Key{Upstream: theLease.Instance, Tool: c.tool, Arguments: c.arguments}, Places: m.Reads(args),
		Reuse: dedup.Reuse{
			Pure: class == valuemodel.Pure, Freshness: m.Cost.Freshness, MaxAge: o.MaxAge,
			Volatile: m.Volatile != nil && *m.Volatile, Repeats: m.FailFastAfter, BackOff: m.BackOff,
		},
	}
	return out
}

// storable reports whether the store may answer the call.
func (c *callClass) storable() bool { return c.query.Key.Tool != "" }
