package proxy

import (
	"fmt"
	"strconv"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// An answer that the proxy served or touched says so in its _meta. Nothing else
// in it changes, save where references are on.
const (
	metaDisposition = "mcpschedd/disposition" // hit, joined, fetched or reference
	metaAge         = "mcpschedd/age_ms"      // since the fetch began
	metaBackOff     = "mcpschedd/backoff_ms"  // until a call like this one may bring something new
)

// stored is the answer that came from the store or another call's flight.
func (c *upstreamCall) stored(o dedup.Outcome) (upstream.Answer, source) {
	from := source{
		how: o.How, prefetched: o.Prefetched, backedOff: o.BackedOff, age: o.Age, took: o.Took, first: o.First, size: len(o.Body),
	}
	how, body := string(o.How), o.Body
	// A note may stand for what the client already holds if the operator wants it, one
	// id stands for one conversation, and no schema is promised.
	refers := o.Same && c.policy.Repeat == "reference" && c.s.identity.ID != "" && c.part == nil && !c.lease.structured(c.tool)
	if refers {
		c.s.identity.delivered.Referenced(c.class.query.Key)
		how, body = "reference", reference(o.Age)
		from.spared = max(0, len(o.Body)-len(body))
	}
	return ownAnswer(withMeta(body, how, &o.Age, o.BackOff), o.Stateless), from
}

// withBackOff is an answer that was fetched, as the server wrote it unless there
// is something to say of it.
func withBackOff(answer upstream.Answer, o dedup.Outcome) upstream.Answer {
	if o.BackOff > 0 && answer.Result != nil {
		answer.Result = withMeta(answer.Result, string(o.How), nil, o.BackOff)
	}
	return answer
}

// withMeta is a result whose _meta says how it came, how old it is (nil: it is new), and
// for how long polling brings nothing new (0: it may at once).
func withMeta(result []byte, how string, age *time.Duration, backOff time.Duration) []byte {
	meta := jsonrpc.Set(jsonrpc.Get(result, "_meta"), metaDisposition, jsonrpc.AppendString(nil, how))
	if age != nil {
		meta = jsonrpc.Set(meta, metaAge, milliseconds(*age))
	}
	if backOff > 0 {
		meta = jsonrpc.Set(meta, metaBackOff, milliseconds(backOff))
	}
	return jsonrpc.Set(result, "_meta", meta)
}

func milliseconds(d time.Duration) []byte {
	return strconv.AppendInt(nil, d.Milliseconds(), 10)
}

// reference is the note that stands for an answer the client already holds.
func reference(age time.Duration) []byte {
	text := fmt.Sprintf("[Unchanged: byte for byte the answer this same call was given before, fetched %d s ago. Call again to get it in full.]", int(age.Seconds()))
	return append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)
}
