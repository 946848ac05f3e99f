package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"

	"mcpschedd/internal/jsonrpc"
)

// encoder encodes events as lines of the log, reusing one buffer.
type encoder struct {
	mac   hash.Hash           // keyed; nil, like scrub, unless the encoder belongs to a log
	scrub func([]byte) []byte // removes secrets from arguments
	text  bytes.Buffer
	json  *json.Encoder // writes to text
	line  line          // the line being encoded
}

func newEncoder() *encoder {
	c := new(encoder)
	c.json = json.NewEncoder(&c.text)
	c.json.SetEscapeHTML(false)
	return c
}

// encode returns the line of an event, including the newline. It is valid until the next call.
func (c *encoder) encode(e *Event) ([]byte, error) {
	c.line = line{Kind: e.Kind, AtUS: micros(e.At), fields: (*fields)(e)}
	if e.Arguments != "" {
		c.line.Arguments = json.RawMessage(e.Arguments)
	}
	c.text.Reset()
	err := c.json.Encode(&c.line)
	return c.text.Bytes(), err
}

// hash fills in the hashes, and the arguments if they are recorded in full, from the event's
// raw fields. Missing arguments count as {}.
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
	if !ok { // the arguments are ambiguous, so only the same bytes are the same arguments
		e.ArgsHash = c.keyed(raw)
		return
	}
	e.ArgsHash = c.keyed(canonical)
	if full {
		e.Arguments = string(c.scrub(canonical))
	}
}

// keyed returns the first 64 bits of HMAC-SHA256 in hexadecimal: enough that the calls of one
// user do not collide. Without the key, guessed arguments cannot be tested against a hash.
func (c *encoder) keyed(b []byte) string {
	c.mac.Reset()
	c.mac.Write(b)
	return hex.EncodeToString(c.mac.Sum(nil)[:8])
}
