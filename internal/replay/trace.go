package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Call is one recorded call, a line of a trace.
type Call struct {
	Session   string          `json:"session"`
	Seq       int             `json:"seq"`
	Batch     int             `json:"batch"`     // number of the turn: calls of one batch were made together
	Start     *int64          `json:"ts_ms"`     // milliseconds since 1970; nil if not recorded
	End       *int64          `json:"res_ts_ms"` // milliseconds since 1970; nil if not recorded
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Text      string          `json:"result_text"`  // may be truncated
	Bytes     int             `json:"result_bytes"` // size of the whole result
	Failed    bool            `json:"is_error"`
}

// maxLine is the maximum length in bytes of a line of a trace.
const maxLine = 64 << 20

// ReadFile reads a trace, plain or gzipped. Errors name the file and the line.
func ReadFile(name string) ([]Call, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadTrace(name, f)
}

// IsTrace reports whether a file, plain or gzipped, begins like a trace, rather than like an event
// log.
func IsTrace(name string) bool {
	if s, err := os.Stat(name); err != nil || !s.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	in, err := unzipped(f)
	if err != nil {
		return false
	}
	head := make([]byte, 64<<10)
	n, _ := io.ReadFull(in, head) // an error shows when the file is read
	line, _, _ := bytes.Cut(bytes.TrimSpace(head[:n]), []byte("\n"))
	var first struct{ Kind string }
	isEvent := json.Unmarshal(line, &first) == nil && first.Kind != ""
	return !isEvent && bytes.Contains(head[:n], []byte(`"batch":`))
}

// unzipped returns the content of a plain or gzipped file.
func unzipped(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(in)
	}
	return in, nil
}

// ReadTrace reads a trace of one JSON object per line and call, plain or gzipped. Errors begin
// with the name and the line. On error no calls are returned.
func ReadTrace(name string, r io.Reader) ([]Call, error) {
	in, err := unzipped(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var calls []Call
	newest := make(map[string]int) // session → its last batch
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	number := 1
	for ; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		c, err := parse(line)
		if batch, begun := newest[c.Session]; err == nil && begun && c.Batch < batch {
			err = fmt.Errorf("batch: want at least %d, the one before in session %q, have %d", batch, c.Session, c.Batch)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		newest[c.Session] = c.Batch
		calls = append(calls, c)
	}
	err = lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("want a line of at most %d MiB", maxLine>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, number, err)
	}
	return calls, nil
}

// parse parses one line.
func parse(line []byte) (Call, error) {
	var c Call
	if err := json.Unmarshal(line, &c); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			if wrong.Field == "" {
				return Call{}, fmt.Errorf("want an object, have a JSON %s", wrong.Value)
			}
			return Call{}, fmt.Errorf("%s: want %s, have a JSON %s", wrong.Field, wanted(wrong), wrong.Value)
		}
		return Call{}, fmt.Errorf("want one JSON object: %w", err)
	}
	if len(c.Arguments) == 0 || string(c.Arguments) == "null" {
		c.Arguments = json.RawMessage("{}")
	}
	switch {
	case line[0] != '{':
		return Call{}, errors.New("want an object, have null")
	case c.Tool == "" && bytes.Contains(line, []byte(`"kind"`)):
		return Call{}, errors.New("want recorded calls; this is an event log, which stats and tune read")
	case c.Tool == "":
		return Call{}, errors.New("tool: want a name")
	case c.Arguments[0] != '{':
		return Call{}, errors.New("arguments: want an object")
	case c.Bytes < 0:
		return Call{}, fmt.Errorf("result_bytes: want at least 0, have %d", c.Bytes)
	case c.Start != nil && c.End != nil && *c.End < *c.Start:
		return Call{}, fmt.Errorf("res_ts_ms: want at least ts_ms, %d, have %d", *c.Start, *c.End)
	}
	for _, ms := range []*int64{c.Start, c.End} {
		if ms != nil && (*ms < 0 || *ms > maxTime) {
			return Call{}, fmt.Errorf("ts_ms, res_ts_ms: want milliseconds since 1970, have %d", *ms)
		}
	}
	c.Bytes = max(c.Bytes, len(c.Text))
	return c, nil
}

// maxTime is the end of the year 2199 in milliseconds since 1970. Differences of such times fit
// into a time.Duration.
const maxTime = 7_258_118_399_999

func wanted(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "int", "int64":
		return "a whole number"
	case "bool":
		return "true or false"
	}
	return "a " + e.Type.Kind().String()
}
