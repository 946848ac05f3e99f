package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestIDOf(t *testing.T) {
	long := `"result":{"content":[{"type":"text","text":"` + text(500) + `"}]}`
	for _, tc := range []struct {
		name, message string
		want          int64
		ok            bool
	}{
		{"before the result", `{"jsonrpc":"2.0","id":1000000001,` + long + `}`, 1000000001, true},
		{"after the result", `{"jsonrpc":"2.0",` + long + `,"id":1000000002}`, 1000000002, true},
		{"first of all", `{"id":3,"jsonrpc":"2.0",` + long + `}`, 3, true},
		{"with line end", `{` + long + `,"id":4}` + "\r\n", 4, true},
		{"with spaces", `{"jsonrpc": "2.0","id": 5,` + long + `}`, 5, true},
		{"zero", `{"id":0}`, 0, true},
		{"string", `{"id":"7",` + long + `}`, 0, false},
		{"null", `{"id":null}`, 0, false},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 0, false},
		{"in the middle of a text", `{"jsonrpc":"2.0",` + strings.Replace(long, "limit", `"id":9,`, 1) + `,"more":"` + text(100) + `"}`, 0, false},
		{"cut", `{"jsonrpc":"2.0","id":`, 0, false},
		{"empty", ``, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := idOf([]byte(tc.message)); got != tc.want || ok != tc.ok {
				t.Errorf("got %d, %t, want %d, %t", got, ok, tc.want, tc.ok)
			}
		})
	}
}

func FuzzIDOf(f *testing.F) {
	f.Add(int64(1), []byte(`"result":{}`))
	f.Fuzz(func(t *testing.T, id int64, rest []byte) {
		idOf(rest) // must not panic
		id &= 1<<62 - 1
		message := append(template{middle: `,`}.append(nil, id), rest...)
		if got, ok := idOf(message); !ok || got != id {
			t.Errorf("got %d, %t, want %d of %q", got, ok, id, message)
		}
	})
}

// No two calls may be equal; otherwise a cache or a joined flight could answer one for the
// upstream.
func TestCallsAreValidAndDiffer(t *testing.T) {
	arguments := func(id int64) (string, string) {
		line := blobCall("bench__blob", 1024).append(nil, id)
		if !bytes.HasSuffix(line, []byte("\n")) || bytes.Count(line, []byte("\n")) != 1 {
			t.Errorf("got %q, want one line", line)
		}
		var m struct {
			ID     int64
			Method string
			Params struct {
				Name      string
				Arguments json.RawMessage
			}
		}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.ID != id || m.Method != "tools/call" {
			t.Errorf("got %+v, want tools/call with id %d", m, id)
		}
		return m.Params.Name, string(m.Params.Arguments)
	}
	name, one := arguments(firstID)
	_, two := arguments(firstID + 1)
	if name != "bench__blob" || !strings.HasPrefix(one, `{"size":1024,"n":`) || one == two {
		t.Errorf("got %s with %s, then %s, want different arguments", name, one, two)
	}
}

// If a number could be derived from an earlier call's arguments, a proxy with all features on
// would prefetch the call.
func TestNumbersOfCallsFollowFromNoOther(t *testing.T) {
	const calls = 1 << 15
	seen := make(map[int64]bool)
	for id := firstID; id < firstID+calls; id++ {
		n := scattered(id)
		if seen[n] || n < 1e9 || n >= 1e10 {
			t.Fatalf("call %d: got %d, want ten digits that no other call has", id, n)
		}
		seen[n] = true
	}
	for _, size := range sizes {
		guessed := 0
		for n := range seen {
			if seen[n+int64(size)] {
				guessed++
			}
		}
		if guessed > calls/100 {
			t.Errorf("%d of %d numbers are the sum of an earlier one and %d, want almost none", guessed, calls, size)
		}
	}
}

func TestText(t *testing.T) {
	for _, size := range append([]int{0, 1, len(sourceLine), len(sourceLine) + 1}, sizes...) {
		s := text(size)
		if len(s) != size || !json.Valid([]byte(`"`+s+`"`)) {
			t.Errorf("got %d bytes, valid %t, want %d bytes that a string can hold", len(s), json.Valid([]byte(`"`+s+`"`)), size)
		}
	}
}

func TestVerify(t *testing.T) {
	call := blobCall("blob", 300)
	answer := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + text(300) + `"}]}}`
	for _, tc := range []struct {
		name, answer string
		ok           bool
	}{
		{"whole", answer, true},
		{"one letter changed", strings.Replace(answer, "limit", "limIt", 1), false},
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`, false},
		{"a failed tool", strings.Replace(answer, `"content"`, `"isError":true,"content"`, 1), false},
		{"no content", `{"jsonrpc":"2.0","id":1,"result":{}}`, false},
		{"no JSON", answer[:100], false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := call.verify([]byte(tc.answer)); (err == nil) != tc.ok {
				t.Errorf("got %v, want ok %t", err, tc.ok)
			}
		})
	}
}
