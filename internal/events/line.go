package events

import (
	"errors"

	"mcpschedd/internal/jsonrpc"
)

// Append appends e as one line, without its end.
func Append(dst []byte, e *Event) []byte { return eventTable.appendTo(dst, e) }

// Parse reads one line. Members that it does not know are left out, and kinds that
// it does not know are kept: both come from later programs. Of a list no more than the
// first 1,024 elements are read. What is no event is an error, which is safe to print.
func Parse(line []byte) (e Event, err error) {
	err = parse(nil, line, &e)
	return e, err
}

func parse(w *words, line []byte, e *Event) error {
	if !jsonrpc.Valid(line) {
		return errors.New("not JSON")
	}
	*e = Event{}
	if err := eventTable.parse(w, line, e); err != nil {
		return err
	}
	if e.Kind == "" {
		return errors.New("not an event: it has no kind")
	}
	return nil
}

// words are strings that have been read before: most of a line's are those of the
// line before. A nil one remembers nothing.
type words struct{ known map[string]string }

// maxWords bounds what is remembered, maxWord the length of each in bytes.
const maxWords, maxWord = 4096, 128

// text decodes a JSON string; false if it is none.
func (w *words) text(value []byte) (string, bool) {
	if w == nil || len(value) > maxWord || value[0] != '"' {
		return jsonrpc.String(value)
	}
	if s, ok := w.known[string(value)]; ok { // by how it was written: no need to decode it
		return s, true
	}
	s, ok := jsonrpc.String(value)
	if ok {
		w.add(string(value), s)
	}
	return s, ok
}

func (w *words) add(written, s string) {
	if w.known == nil {
		w.known = map[string]string{}
	}
	if len(w.known) >= maxWords {
		clear(w.known)
	}
	w.known[written] = s
}
