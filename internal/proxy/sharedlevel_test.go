package proxy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// A shared server is set to the most verbose level that a session wants, and to a less verbose one as soon as no
// session needs the former.
func TestLevelOfASharedServer(t *testing.T) {
	for _, transport := range loose {
		t.Run(transport, func(t *testing.T) {
			p, up := puppet(t, transport)
			s := start(t, options(up))
			told := func(want ...string) {
				t.Helper()
				for late := time.Now().Add(patience); !slices.Equal(p.Levels(), want); time.Sleep(time.Millisecond) {
					if time.Now().After(late) {
						t.Fatalf("the server was told %v, want %v", p.Levels(), want)
					}
				}
			}
			a, b := connect(t, s, handshake), connect(t, s, handshake)
			a.call("rest", "")
			b.call("rest", "")
			b.request("logging/setLevel", `{"level":"error"}`)
			told("info") // a has set no level
			a.request("logging/setLevel", `{"level":"debug"}`)
			told("info", "debug")
			b.request("logging/setLevel", `{"level":"warning"}`)
			c := connect(t, s, stateless) // gets messages only with requests that ask for them
			c.call("rest", "")
			a.request("logging/setLevel", `{"level":"notice"}`)
			told("info", "debug", "notice")
			a.hangUp()
			told("info", "debug", "notice", "warning")
			c.era = "as written"
			c.start("tools/call", withMeta(toolCall("rest", ""), able, "debug")).wait()
			told("info", "debug", "notice", "warning", "debug")
			c.start("tools/call", withMeta(toolCall("rest", ""), able, "error")).wait()
			told("info", "debug", "notice", "warning", "debug", "warning")
			c.start("tools/call", withMeta(toolCall("rest", ""), able, "debug")).wait()
			told("info", "debug", "notice", "warning", "debug", "warning", "debug")
			c.hangUp()
			told("info", "debug", "notice", "warning", "debug", "warning", "debug", "warning")
		})
	}
}

// Each session of a shared server receives the messages of its own level, whatever level other sessions caused the
// server to have.
func TestEachSessionOfASharedServerHasItsOwnLevel(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "logs"}) // its messages come on the call's stream
	up.Spec.Shared = true
	s := start(t, options(up))
	levels := func(c *caller, params func(string) string) (got []string) {
		c.t.Helper()
		for _, level := range []string{"debug", "info", "warning", "error", "odd"} {
			p := c.startAs("tools/call", params(toolCall("log", fmt.Sprintf(`{"level":%q}`, level))))
			p.wait()
			for len(c.notes) > 0 {
				if m := <-c.notes; m.Method == "notifications/message" {
					got = append(got, level)
				}
			}
		}
		return got
	}
	plain := func(params string) string { return params }
	asking := func(level string) func(string) string {
		return func(params string) string { return withMeta(params, able, level) }
	}
	a, b, c, d := connect(t, s, handshake), connect(t, s, handshake), connect(t, s, handshake), connect(t, s, stateless)
	if got := levels(c, plain); len(got) != 5 {
		t.Errorf("a session that named no level, as none did: got %v", got)
	}
	a.request("logging/setLevel", `{"level":"debug"}`)
	b.request("logging/setLevel", `{"level":"warning"}`)
	for _, test := range []struct {
		name   string
		c      *caller
		params func(string) string
		want   []string
	}{
		{"debug", a, plain, []string{"debug", "info", "warning", "error", "odd"}},
		{"warning", b, plain, []string{"warning", "error", "odd"}},
		{"none", c, plain, []string{"debug", "info", "warning", "error", "odd"}},
		{"stateless, error", d, asking("error"), []string{"error", "odd"}},
		{"stateless, debug", d, asking("debug"), []string{"debug", "info", "warning", "error", "odd"}},
		{"stateless, none", d, asking(""), nil},
	} {
		if got := levels(test.c, test.params); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
