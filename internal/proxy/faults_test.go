package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

func TestUpstreamDiesMidCall(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s shared %v", era, shared), func(t *testing.T) {
				up := child(t, mcptest.Options{Name: "frail"})
				up.Spec.Shared = shared
				s := start(t, options(up))
				c := connect(t, s, era)
				c.tools()
				open := c.begin("hang", "") // is with the server when it dies
				began := time.Now()
				text := c.broken("die", `{"stderr":["panic: out of luck","goroutine 1"]}`)
				t.Logf("answered %v after the call", time.Since(began))
				for _, want := range []string{`"frail"`, "exited with status 3", "panic: out of luck", "goroutine 1"} {
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

func TestFaultsAffectOneCall(t *testing.T) {
	c := connect(t, start(t, options(child(t, mcptest.Options{Name: "frail", Start: "rubbish"}))), handshake)
	pid := c.said("pid", "")
	hung := c.begin("hang", "")
	for _, tool := range []string{"garbage", "wrongid"} {
		if got := c.call(tool, ""); !strings.Contains(got, `"frail"`) || strings.Contains(got, "wrong\"") {
			t.Errorf("%s: got %s, want its own answer", tool, got)
		}
	}
	if got := c.broken("broken", ""); !strings.Contains(got, `"frail"`) || !strings.Contains(got, "its answer cannot be read") {
		t.Errorf("broken answer: got %q", got)
	}
	if got := c.call("big", `{"n":300000}`); len(got) < 300_000 {
		t.Errorf("a long line: got %d bytes", len(got))
	}
	if got := c.said("pid", ""); got != pid {
		t.Errorf("process %s became %s: none of this is a reason to start it anew", pid, got)
	}
	if !hung.open() {
		t.Errorf("the call that hangs was answered: %s", hung.wait().Raw)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + hung.id + `}}`)
	c.call("echo", "")
	if !hung.open() {
		t.Errorf("a cancelled call was answered: %s", hung.wait().Raw)
	}
}

func TestUpstreamClosesAPipe(t *testing.T) {
	for _, pipe := range []string{"closeout", "closein"} {
		t.Run(pipe, func(t *testing.T) {
			c := connect(t, start(t, options(child(t, mcptest.Options{Name: "frail"}))), handshake)
			pid := c.said("pid", "")
			m := c.begin(pipe, `{"stderr":["about to close"]}`).wait()
			if pipe == "closeout" {
				if got := brokenText(t, m); !strings.Contains(got, `"frail"`) || !strings.Contains(got, "about to close") {
					t.Errorf("got %q, want the upstream's name and last words", got)
				}
			}
			// It hears nothing any more, so it has to be started anew.
			if got := c.said("pid", ""); got == pid || got == "" {
				t.Errorf("got process %q, want another than %s", got, pid)
			}
		})
	}
}
