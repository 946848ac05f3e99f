package replay

import (
	"iter"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// upstreamID stands for the one upstream that has all recorded tools.
const upstreamID = 1

// callClass is what the value model says of a call.
type callClass struct {
	model  *valuemodel.Model
	host   string
	effect call.Effect
	query  dedup.Query // without a scope; of a call that only the upstream may answer it has no key
	read   bool        // it counts as a read: its tool as a whole may be run early
}

// classify says what a call may change, and whether it may be answered by anything
// but its upstream. The file that an answer depends on is not looked at: that of
// the recording is not here.
func (o *Options) classify(c exact) callClass {
	m := o.Model(c.tool)
	out := callClass{model: m, host: m.Host, read: m.Class.Reads() && m.Speculate != nil && *m.Speculate}
	raw := []byte(c.arguments)
	index := jsonrpc.NewIndex(raw)
	args, names := valuemodel.Arguments(nil), iter.Seq[string](nil)
	plain := index.Unambiguous() // else servers may disagree on what it says
	if plain {
		args = index.Get
		names = jsonrpc.Names(raw)
	}
	out.host = m.HostOf(args)
	class := m.ClassOf(args, names)
	if !class.Reads() {
		// The configuration of the recording's repositories is not here: it is taken to be plain.
		if _, quiet := m.Quiet(args, names); !quiet {
			out.effect = m.Writes(args)
		}
		return out
	}
	if !plain {
		return out
	}
	out.query = dedup.Query{
		Key: call.Key{Upstream: upstreamID, Tool: c.tool, Arguments: c.arguments}, Places: m.Reads(args),
		Reuse: dedup.Reuse{
			Pure: class == valuemodel.Pure, Freshness: m.Cost.Freshness, MaxAge: o.maxAge(),
			Volatile: m.Volatile != nil && *m.Volatile, Repeats: m.FailFastAfter, BackOff: m.BackOff,
		},
	}
	if o.KeepTurns > 0 { // the store's clock then counts turns, in which no freshness is told
		out.query.Reuse.Freshness = 0
	}
	return out
}

// storable reports whether anything but the upstream may answer.
func (c *callClass) storable() bool { return c.query.Key.Tool != "" }
