package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// firstID begins the ids of a client. All have ten digits, so that the answers
// to calls of one kind are equally long and a damaged one is noticed by its
// length.
const firstID int64 = 1_000_000_000

// idWindow is how far from either end of a message its id is looked for.
const idWindow = 64

var idKey = []byte(`"id":`)

// idOf returns the number that is the id of message. It reads only the ends:
// every known server writes the id before or after the result, and the results
// that this program asks for hold no such key.
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

// template is a request without its id. A tool call has a number in its arguments that
// stands in no other call and follows from none (scattered): no call can be answered with
// the result of another, or with one that was fetched ahead.
type template struct {
	middle string // after the id
	end    string // after the number; "" where there is none
	text   string // what the answer's text must be, as it stands in JSON; "" is not checked
}

// ask is a request for something other than a tool call.
func ask(method, params string) template {
	return template{middle: fmt.Sprintf(`,"method":%q,"params":%s}`+"\n", method, params)}
}

// blobCall asks for a text of size bytes.
func blobCall(tool string, size int) template {
	return template{
		middle: fmt.Sprintf(`,"method":"tools/call","params":{"name":%q,"arguments":{"size":%d,"n":`, tool, size),
		end:    "}}}\n",
		text:   text(size),
	}
}

// sleepCall asks for an answer after ms milliseconds.
func sleepCall(tool string, ms int) template {
	return template{
		middle: fmt.Sprintf(`,"method":"tools/call","params":{"name":%q,"arguments":{"ms":%d,"n":`, tool, ms),
		end:    "}}}\n",
	}
}

// append adds the request with this id to b, line end included.
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

// scattered is a number of ten digits, another one for each of 2^30 ids in a row. A number
// that counted up would be foreseen: the proxy takes the sum of two arguments for the
// offset of the next page, and size calls later the sum of size and n is asked for.
func scattered(id int64) int64 {
	const bits = 30
	const mask = 1<<bits - 1
	x := uint64(id) & mask
	for range 2 { // each line is one to one
		x ^= x >> (bits / 2)
		x = x * 0x2c1b3c6d & mask
	}
	return firstID + int64(x^x>>(bits/2))
}

// verify decodes one answer in full and compares its text.
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

// resultOf returns the result of an answer, or its error as one.
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

// sourceLine is what a search tool answers with; its escapes cost a JSON
// scanner what real answers cost it, which a run of one letter would not.
const sourceLine = `internal/proxy/call.go:42:\tif err := s.limit.Wait(ctx, host); err != nil { return fmt.Errorf(\"%s: %w\", host, err) }\n`

// text returns size bytes for the inside of a JSON string.
func text(size int) string {
	lines := strings.Repeat(sourceLine, size/len(sourceLine))
	return lines + strings.Repeat("x", size-len(lines))
}
