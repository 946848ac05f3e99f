package proxy_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// An invalid request is refused with the right error, and the next request is served.
func TestBadInput(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "a"})
	o := options(up)
	o.MaxMessage = 4096
	c := connect(t, start(t, o), handshake)
	c.tools()
	tests := []struct {
		name, line string
		id         string // of the response; "" if there is none
		code       int
	}{
		{"not JSON", `{"jsonrpc":"2.0","id":"x",`, `"x"`, -32700},
		{"params an array", `{"jsonrpc":"2.0","id":"x","method":"ping","params":[1]}`, `"x"`, -32602},
		{"too long", `{"jsonrpc":"2.0","id":"x","method":"ping","params":{"x":"` + strings.Repeat("x", 5000) + `"}}`, `"x"`, -32600},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lines := len(c.transcript())
			expect := make(chan jsonrpc.Message, 1)
			c.mu.Lock()
			c.waiting[test.id] = expect
			c.mu.Unlock()
			c.send(test.line)
			m := await(t, expect)
			if code, message := errorOf(t, m); code != test.code || message == "" {
				t.Errorf("got %s, want code %d", m.Raw, test.code)
			}
			c.call("echo", "")
			if got := len(c.transcript()) - lines; got != 2 {
				t.Errorf("got %d messages, want the error and the next answer", got)
			}
		})
	}
	for name, line := range map[string]string{
		"empty lines":                  "\r\n\n",
		"unknown notification":         `{"jsonrpc":"2.0","method":"notifications/none","params":{}}`,
		"answer to nothing":            `{"jsonrpc":"2.0","id":99,"result":{}}`,
		"error to nothing":             `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		"broken answer":                `{"jsonrpc":"2.0","id":99,"result":{},"error":{}}`,
		"cancellation of nothing":      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`,
		"cancellation without params":  `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		"progress of nothing":          `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4}}`,
		"initialized for the 2nd time": `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	} {
		t.Run(name, func(t *testing.T) {
			lines := len(c.transcript())
			c.send(line)
			c.call("echo", "")
			if got := c.transcript()[lines:]; len(got) != 1 {
				t.Errorf("got %q, want the next answer only", got)
			}
		})
	}
	for _, test := range []struct {
		method, params string
		code           int
	}{
		{"tools/none", "{}", -32601},
		{"tools/call", "{}", -32602},
		{"tools/call", `{"name":7}`, -32602},
		{"tools/call", `{"name":"echo","name":"pid"}`, -32602},
		{"tools/call", `{"name":"echo","Name":"pid"}`, -32602},
		{"tools/list", `{"cursor":"x"}`, -32602},
		{"prompts/get", "{}", -32602},
		{"resources/read", `{"uri":1}`, -32602},
		{"completion/complete", "{}", -32602},
		{"logging/setLevel", "{}", -32602},
		{"subscriptions/listen", "{}", -32601},
	} {
		if code, message := c.refused(test.method, test.params); code != test.code || message == "" {
			t.Errorf("%s %s: got %d %s, want %d", test.method, test.params, code, message, test.code)
		}
	}
}

// No line makes a session panic, and no request gets two responses.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n" + `[{"jsonrpc":"2.0","id":2,"method":"ping"},{"id":3}]`,
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","arguments":null,"_meta":{"progressToken":0}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + withMeta("{}", able, "debug") + `}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"name":"x"}}}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`,
		`{"jsonrpc":"2.0","id":"mcpschedd-1","result":{}}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":` + withMeta(`{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://1",2]}}`, able, "") + `}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":` + withMeta(`{"name":"t","requestState":"x","inputResponses":{}}`, able, "") + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		s := proxy.New(proxy.Options{
			Upstreams: []catalog.Upstream{shelf("a", "t"), shelf("b", "t", "u")},
			Fixed:     proxy.Fixed{DrainTimeout: patience, MaxMessage: 1 << 16},
		}, nil)
		defer s.Close()
		var out bytes.Buffer
		if err := s.ServeStdio(t.Context(), bytes.NewReader(append(input, '\n')), &out, ""); err != nil {
			t.Errorf("%v", err)
		}
		requests := make(map[string]int) // raw id → number of occurrences in the input
		for line := range bytes.SplitSeq(input, []byte("\n")) {
			for _, m := range messagesOf(line) {
				requests[string(m.ID)]++
			}
		}
		for line := range bytes.SplitSeq(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			m, err := jsonrpc.Parse(line)
			if err != nil {
				t.Fatalf("the proxy said %q: %v", line, err)
			}
			if id := string(m.ID); m.IsResponse() && id != "null" {
				if requests[id]--; requests[id] < 0 {
					t.Errorf("request %s has more than one response", id)
				}
			}
		}
	})
}

// messagesOf returns the parts of a line that may be requests.
func messagesOf(line []byte) []jsonrpc.Message {
	raws := [][]byte{line}
	if jsonrpc.Valid(line) && bytes.HasPrefix(bytes.TrimSpace(line), []byte("[")) {
		raws = nil
		for raw := range jsonrpc.Elements(line) {
			raws = append(raws, messagesRaw(raw)...)
		}
	}
	var out []jsonrpc.Message
	for _, raw := range raws {
		m, _ := jsonrpc.Parse(raw) // a malformed message may have an id too
		if m.ID != nil {
			out = append(out, m)
		}
	}
	return out
}

func messagesRaw(raw []byte) [][]byte {
	if !bytes.HasPrefix(raw, []byte("[")) {
		return [][]byte{raw}
	}
	var out [][]byte
	for element := range jsonrpc.Elements(raw) {
		out = append(out, messagesRaw(element)...)
	}
	return out
}

func TestUpstreamDiesMidCall(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s shared %v", era, shared), func(t *testing.T) {
				up := child(t, mcptest.Options{Name: "frail"})
				up.Spec.Shared = shared
				s := start(t, options(up))
				c := connect(t, s, era)
				c.tools()
				open := c.begin("hang", "") // open at the server when it crashes
				began := time.Now()
				text := c.broken("die", `{"stderr":["panic: out of luck","goroutine 1"]}`)
				t.Logf("answered %v after the call", time.Since(began))
				for _, want := range []string{"outcome unknown: the call may have run; ", `"frail"`, "exit status 3", "panic: out of luck", "goroutine 1"} {
					if !strings.Contains(text, want) {
						t.Errorf("got %q, want %q in it", text, want)
					}
				}
				if got := brokenText(t, open.wait()); !strings.Contains(got, `"frail"`) {
					t.Errorf("the other open call: got %q", got)
				}
				if got := c.said("echo", `{"after":1}`); !strings.Contains(got, `"after":1`) {
					t.Errorf("the next call: got %s", got)
				}
			})
		}
	}
}

// logged collects the log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}
