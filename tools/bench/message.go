package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// firstID is the first id of a client. All ids have ten digits, so that answers to calls of one
// kind have the same length, and a damaged one is noticed by its length.
const firstID int64 = 1_000_000_000

// idWindow is the distance from either end of a message in which its id is searched for.
const idWindow = 64

var idKey = []byte(`"id":`)

// idOf returns the id of a message, if it is a number. It reads only the ends: every known server
// writes the id before or after the result, and the results here contain no such key.
func idOf(message []byte) (int64, bool) {
	at := bytes.Index(message[:min(len(message), idWindow)], idKey)
	if at < 0 {
		from := max(0, len(message)-idWindow)
		if at = bytes.LastIndex(message[from:], idKey); at < 0 {
			return 0, false
		}
		at += from
	}
	digits := bytes.TrimLeft(message[at+len(idKey):], " ")
	var n int64
	for i, c := range digits[:min(len(digits), 19)] {
		if c < '0' || c > '9' {
			return n, i > 0
		}
		n = n*10 + int64(c-'0')
	}
	return n, len(digits) > 0
}

// template is a request without its id. A tool call has a number in its arguments that occurs in
// no other call and cannot be derived from one (see scattered), so no call can be answered with
// another's result or with a prefetched one.
type template struct {
	middle string // after the id
	end    string // after the number; "" for a request without one
	text   string // expected text of the answer, as in JSON; "" means that it is not checked
}

// ask returns a request that is not a tool call.
func ask(method, params string) template {
	return template{middle: fmt.Sprintf(`,"method":%q,"params":%s}`+"\n", method, params)}
}

// blobCall returns a call for a text of size bytes.
func blobCall(tool string, size int) template {
	return template{
		middle: fmt.Sprintf(`,"method":"tools/call","params":{"name":%q,"arguments":{"size":%d,"n":`, tool, size),
		end:    "}}}\n",
		text:   text(size),
	}
}

// sleepCall returns a call that is answered after ms milliseconds.
func sleepCall(tool string, ms int) template {
	return template{
		middle: fmt.Sprintf(`,"method":"tools/call","params":{"name":%q,"arguments":{"ms":%d,"n":`, tool, ms),
		end:    "}}}\n",
	}
}

// append appends the request with this id to b, with a line end.
func (t template) append(b []byte, id int64) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = strconv.AppendInt(b, id, 10)
	b = append(b, t.middle...)
	if t.end == "" {
		return b
	}
	b = strconv.AppendInt(b, scattered(id), 10)
	return append(b, t.end...)
}

// scattered returns a number of ten digits, a different one for each of 2^30 consecutive ids.
// Increasing numbers would be predicted: the proxy takes the sum of two arguments as the offset of
// the next page, and after size calls the sum of size and n would occur.
func scattered(id int64) int64 {
	const bits = 30
	const mask = 1<<bits - 1
	x := uint64(id) & mask
	for range 2 { // each line is a bijection
		x ^= x >> (bits / 2)
		x = x * 0x2c1b3c6d & mask
	}
	return firstID + int64(x^x>>(bits/2))
}

// verify decodes a whole answer, and compares its text.
func (t template) verify(answer []byte) error {
	var result struct {
		Content []struct{ Text string }
		IsError bool
	}
	raw, err := resultOf(answer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("tools/call: %w", err)
	}
	if len(result.Content) != 1 || result.IsError {
		return fmt.Errorf("tools/call: unexpected result %.200q", raw)
	}
	var want string
	if err := json.Unmarshal([]byte(`"`+t.text+`"`), &want); err != nil {
		return err
	}
	if got := result.Content[0].Text; t.text != "" && got != want {
		return fmt.Errorf("tools/call: the text differs: got %d bytes, want %d", len(got), len(want))
	}
	return nil
}

// resultOf returns the result of an answer, or an error with its error.
func resultOf(answer []byte) (json.RawMessage, error) {
	var m struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if m.Error != nil {
		return nil, errors.New(m.Error.Message)
	}
	return m.Result, nil
}

// sourceLine is a line as search tools return it. Its escapes cost a JSON scanner as much as those
// of real answers, unlike a run of one letter.
const sourceLine = `internal/proxy/call.go:42:\tif err := s.limit.Wait(ctx, host); err != nil { return fmt.Errorf(\"%s: %w\", host, err) }\n`

// text returns size bytes for the content of a JSON string.
func text(size int) string {
	lines := strings.Repeat(sourceLine, size/len(sourceLine))
	return lines + strings.Repeat("x", size-len(lines))
}
