package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Call is one recorded call.
type Call struct {
	Dataset   string          `json:"dataset"`
	Session   string          `json:"session"`
	Seq       int             `json:"seq"`
	Batch     int             `json:"batch"` // calls of a batch were made together
	Start     *int64          `json:"ts_ms"` // ms; nil: not recorded
	End       *int64          `json:"res_ts_ms"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Text      string          `json:"result_text"`
	Bytes     int             `json:"result_bytes"` // of the whole result
	Failed    bool            `json:"is_error"`
}

// ReadFile reads a trace, plain or gzip.
func ReadFile(name string) ([]Call, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	calls, err := ReadTrace(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return calls, nil
}

// ReadTrace reads a trace, plain or gzip: JSON lines, one call each.
func ReadTrace(r io.Reader) ([]Call, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReaderSize(z, 64<<10)
	}
	var calls []Call
	dec := json.NewDecoder(in)
	for dec.More() {
		var c Call
		if err := dec.Decode(&c); err != nil {
			return nil, fmt.Errorf("call %d: %w", len(calls)+1, err)
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// sessions groups calls by session, in order of first appearance, and those by
// batch.
func sessions(calls []Call) [][][]Call {
	at := map[string]int{}
	var out [][][]Call
	for _, c := range calls {
		i, ok := at[c.Session]
		if !ok {
			i = len(out)
			at[c.Session] = i
			out = append(out, nil)
		}
		if n := len(out[i]); n == 0 || out[i][n-1][0].Batch != c.Batch {
			out[i] = append(out[i], nil)
		}
		n := len(out[i]) - 1
		out[i][n] = append(out[i][n], c)
	}
	return out
}
