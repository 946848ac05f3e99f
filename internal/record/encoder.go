package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"

	"mcpschedd/internal/jsonrpc"
)

// encoder makes lines of events, one after the other, in the same memory.
type encoder struct {
	mac   hash.Hash           // keyed; as scrub, only of a log
	scrub func([]byte) []byte // takes secrets out of arguments
	text  bytes.Buffer
	json  *json.Encoder // to text
	line  line          // that is made
}

func newEncoder() *encoder {
	c := new(encoder)
	c.json = json.NewEncoder(&c.text)
	c.json.SetEscapeHTML(false)
	return c
}

// encode returns the line of an event, with its end; it is good until the next one.
func (c *encoder) encode(e *Event) ([]byte, error) {
	c.line = line{Kind: e.Kind, AtUS: micros(e.At), fields: (*fields)(e)}
	if e.Arguments != "" {
		c.line.Arguments = json.RawMessage(e.Arguments)
	}
	c.text.Reset()
	err := c.json.Encode(&c.line)
	return c.text.Bytes(), err
}

// hash makes of an event's raw parts what is written of them. A call without arguments is
// one with {}.
func (c *encoder) hash(e *Event, full bool) {
	if e.ResultSum != 0 && e.ResultHash == "" {
		e.ResultHash = c.keyed(binary.BigEndian.AppendUint64(nil, e.ResultSum))
	}
	if e.Kind != Call && e.Kind != Prefetch || e.ArgsHash != "" {
		return
	}
	raw := e.RawArguments
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if len(raw) > maxArguments {
		e.ArgsBytes = int64(len(raw))
		e.ArgsHash = c.keyed(binary.BigEndian.AppendUint64(raw[:maxArguments:maxArguments], uint64(len(raw))))
		return
	}
	canonical, ok := jsonrpc.AppendCanonical(nil, raw)
	if !ok { // two servers may read two things in it
		e.ArgsHash = c.keyed(raw)
		return
	}
	e.ArgsHash = c.keyed(canonical)
	if full {
		e.Arguments = string(c.scrub(canonical))
	}
}

// keyed is the beginning of HMAC-SHA256 in hexadecimal: 64 bits tell apart all that one
// user ever asks, and without the key nothing can be tried out against them.
func (c *encoder) keyed(b []byte) string {
	c.mac.Reset()
	c.mac.Write(b)
	return hex.EncodeToString(c.mac.Sum(nil)[:8])
}
