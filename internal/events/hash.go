package events

import (
	"encoding/binary"
	"encoding/hex"

	"mcpschedd/internal/jsonrpc"
)

// maxArguments is how many bytes of arguments are hashed, and recorded.
const maxArguments = 64 << 10

// hash makes of an event's raw parts what is written of them. A call without
// arguments is one with {}. l.telling is held.
func (l *Log) hash(e *Event) {
	if e.ResultSum != 0 && e.ResultHash == "" {
		l.scratch = binary.BigEndian.AppendUint64(l.scratch[:0], e.ResultSum)
		e.ResultHash = l.keyed(l.scratch)
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
		l.scratch = append(l.scratch[:0], raw[:maxArguments]...)
		l.scratch = binary.BigEndian.AppendUint64(l.scratch, uint64(len(raw)))
		e.ArgsHash = l.keyed(l.scratch)
		return
	}
	canonical, ok := jsonrpc.AppendCanonical(l.scratch[:0], raw)
	if !ok { // two servers may read two things in it
		e.ArgsHash = l.keyed(raw)
		return
	}
	l.scratch = canonical
	e.ArgsHash = l.keyed(canonical)
	if l.full {
		e.Arguments = l.scrubbed(canonical)
	}
}

// scrubbed is arguments without their secrets.
func (l *Log) scrubbed(canonical []byte) string {
	if l.scrub != nil {
		canonical = l.scrub(canonical)
	}
	return string(canonical)
}

// keyed is the beginning of HMAC-SHA256 in hexadecimal: 64 bits tell what a user has
// ever asked apart, and without the key nobody can try what it may have been.
func (l *Log) keyed(b []byte) string {
	l.mac.Reset()
	l.mac.Write(b)
	l.sum = l.mac.Sum(l.sum[:0])
	var digits [16]byte
	hex.Encode(digits[:], l.sum[:8])
	return string(digits[:])
}
