package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
)

// talk sends lines to an upstream at once, and returns what it writes until its input ends after
// wait.
func talk(t *testing.T, wait time.Duration, lines ...string) []string {
	t.Helper()
	in, feed := io.Pipe()
	var out bytes.Buffer // only written by the upstream, and read after its end
	ended := make(chan error)
	go func() { ended <- serveUpstream(in, &out) }()
	for _, line := range lines {
		io.WriteString(feed, line+"\n")
	}
	time.Sleep(wait)
	feed.Close()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want no error", err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestUpstreamAnswers(t *testing.T) {
	for _, tc := range []struct{ name, line, want string }{
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}}`},
		{"unknown revision", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2031-01-01"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}}`},
		{"ping with a string id", `{"jsonrpc":"2.0","id":"a-7","method":"ping"}`, `{"jsonrpc":"2.0","id":"a-7","result":{}}`},
		{"tools/list", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"result":` + toolList + `}`},
		{"blob", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"blob","arguments":{"size":5,"n":1}}}`,
			`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"xxxxx"}]}}`},
		{"params before method", `{"params":{"arguments":{"size":1},"name":"blob","_meta":{"k":1}},"method":"tools/call","id":"x","jsonrpc":"2.0"}`,
			`{"jsonrpc":"2.0","id":"x","result":{"content":[{"type":"text","text":"x"}]}}`},
		{"negative size", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"blob","arguments":{"size":-1}}}`,
			`{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no such tool or size"}}`},
		{"unknown tool", `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"rm"}}`,
			`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"no such tool or size"}}`},
		{"unknown method", `{"jsonrpc":"2.0","id":5,"method":"server/discover"}`,
			`{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"method not found"}}`},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				if got := talk(t, 0, tc.line); len(got) != 1 || got[0] != tc.want {
					t.Errorf("got  %s\nwant %s", got, tc.want)
				}
			})
		})
	}
}

// A prepared answer is reused: no part of a longer id may be left before a shorter one.
func TestUpstreamSplicesIDsOfAnyLength(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ids := []string{`1000000000`, `7`, `"` + strings.Repeat("k", idRoom-2) + `"`, `22`}
		var lines []string
		for _, id := range ids {
			lines = append(lines, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"blob","arguments":{"size":300}}}`)
		}
		for i, got := range talk(t, 0, lines...) {
			want := `{"jsonrpc":"2.0","id":` + ids[i] + `,"result":{"content":[{"type":"text","text":"` + text(300) + `"}]}}`
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

func TestUpstreamSleepsConcurrently(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var lines []string
		for id := range 16 {
			lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sleep","arguments":{"ms":300}}}`, id))
		}
		if got := talk(t, 300*time.Millisecond+1, lines...); len(got) != 16 {
			t.Errorf("got %d answers after 300 ms, want 16", len(got))
		}
		// When the input ends, calls that still sleep are dropped.
		if got := talk(t, 299*time.Millisecond, lines...); len(got) != 1 || got[0] != "" {
			t.Errorf("got %q after 299 ms, want none", got)
		}
	})
}

func TestUpstreamRefusesWhatIsNoJSON(t *testing.T) {
	if err := serveUpstream(strings.NewReader("hello\n"), io.Discard); err == nil {
		t.Error("got no error, want one")
	}
}
