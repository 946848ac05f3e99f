package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
)

// brokenServers are four that cannot be used, each for another reason, by what every part of
// the program says of it.
var brokenServers = map[string]string{
	"unset":   "environment variable MCPSCHEDD_NO_SUCH_VARIABLE is not set",
	"missing": `command "no-such-command" not found in PATH`,
	"crash":   "exited with status 4",
	"rubbish": "it writes what is no MCP message, and does not answer",
}

var soundServers = []string{"one", "two", "three", "four", "five"}

// nineServers is a configuration of the sound servers and the broken ones.
func nineServers(t *testing.T) string {
	var config strings.Builder
	config.WriteString("[server]\nstartup_wait = \"500ms\"\nstart_timeout = \"3s\"\ndrain_timeout = \"10ms\"\n" +
		"[upstreams.unset]\ncommand = \"x\"\nargs = [\"${MCPSCHEDD_NO_SUCH_VARIABLE}\"]\n" +
		"[upstreams.missing]\ncommand = \"no-such-command\"\n" +
		"[upstreams.crash]\ncommand = \"sh\"\nargs = [\"-c\", \"exit 4\"]\n" +
		"[upstreams.rubbish]\ncommand = \"sh\"\nargs = [\"-c\", \"while read line; do echo Welcome; done\"]\n")
	for _, name := range soundServers {
		web := httptest.NewServer(mcptest.New(mcptest.Options{Name: name}).Handler())
		t.Cleanup(web.Close)
		fmt.Fprintf(&config, "[upstreams.%s]\nurl = %q\n", name, web.URL)
	}
	return config.String()
}

// stateless is a request of a client without a handshake.
func stateless(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, method, params)
}

// Four of nine servers are broken: the client, stats, the dashboard and check say which and
// why, and the five others work undisturbed.
func TestFourOfNineServersAreBroken(t *testing.T) {
	p := startProgram(t, nineServers(t))
	t.Setenv("XDG_STATE_HOME", filepath.Dir(p.state))
	file := filepath.Join(filepath.Dir(p.state), "pipeline_config.toml")

	first := p.ask(t, stateless(1, "server/discover", ""))
	for _, name := range []string{"unset", "missing"} { // the others have not failed yet
		if !strings.Contains(first, name+" (") || !strings.Contains(first, quotedText(brokenServers[name])) {
			t.Errorf("instructions: nothing of %s in %s", name, first)
		}
	}
	list := ""
	eventuallyAll(t, "tools/list", func() string { // which waits for a slow server for a while only
		list = p.ask(t, stateless(2, "tools/list", ""))
		return list
	}, `"one__echo"`, `"two__echo"`, `"three__echo"`, `"four__echo"`, `"five__echo"`)
	for name := range brokenServers {
		if strings.Contains(list, `"`+name+"__") {
			t.Errorf("tools/list: tools of %s", name)
		}
	}
	for i, name := range soundServers {
		if got := p.ask(t, stateless(10+i, "tools/call", `"name":"`+name+`__echo",`)); !strings.Contains(got, `"text":"`+name+`"`) {
			t.Errorf("%s: got %s", name, got)
		}
	}
	for name, why := range brokenServers {
		got := p.ask(t, stateless(20, "tools/call", `"name":"`+name+`__echo",`))
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, name) || !strings.Contains(got, quotedText(why)) {
			t.Errorf("%s: got %s, want %s", name, got, why)
		}
	}
	eventually(t, "instructions of a later session", func() string { // for a moment crash is tried again
		return p.ask(t, stateless(30, "server/discover", ""))
	}, quotedText)
	eventually(t, "stats", func() string { // which a process writes from time to time
		var out bytes.Buffer
		if code := run(t.Context(), []string{"stats", "--config", file}, &out, os.Stderr); code != 0 {
			t.Fatalf("stats: got exit code %d", code)
		}
		return out.String()
	}, func(text string) string { return text }, "4 of 9 servers cannot be used now: crash, missing, rubbish, unset.\n")
	page := open(t, "--config", file)
	page.get(page.address)
	wantView(t, page.view())

	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--connect", "--config", file}, &out, &errs); code != exitFailed {
		t.Errorf("check: got exit code %d, want %d", code, exitFailed)
	}
	for name, why := range brokenServers {
		if !strings.Contains(out.String(), "✗ "+name+": ") || !strings.Contains(out.String(), why) {
			t.Errorf("check: nothing of %s in\n%s", name, out.String())
		}
	}
	if !strings.Contains(out.String(), "5 of 9 usable\n") || !strings.Contains(errs.String(), "4 of 9 upstreams cannot be used") {
		t.Errorf("check: got\n%s%s", out.String(), errs.String())
	}
}

// quotedText is a text as it stands in JSON.
func quotedText(text string) string {
	quoted, _ := json.Marshal(text)
	return strings.Trim(string(quoted), `"`)
}

// eventually asks until the answer says why each of the broken servers cannot be used, and
// whatever else is wanted.
func eventually(t *testing.T, what string, ask func() string, written func(string) string, wants ...string) {
	t.Helper()
	for _, why := range brokenServers {
		wants = append(wants, written(why))
	}
	eventuallyAll(t, what, ask, wants...)
}

// eventuallyAll asks until the answer holds all that is wanted.
func eventuallyAll(t *testing.T, what string, ask func() string, wants ...string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got := ask()
		i := slices.IndexFunc(wants, func(want string) bool { return !strings.Contains(got, want) })
		if i < 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: got\n%s\nwant %s", what, got, wants[i])
		}
	}
}

// wantView checks what the dashboard's page is told.
func wantView(t *testing.T, v record.View) {
	t.Helper()
	if len(v.Stats.Running) != 1 || len(v.Stats.Running[0].Upstreams) != 9 {
		t.Fatalf("dashboard: got %+v", v.Stats.Running)
	}
	for _, u := range v.Stats.Running[0].Upstreams {
		if why, broken := brokenServers[u.Name]; broken == (u.State == "ready") || broken && !strings.Contains(u.Error, why) || !broken && u.Restarts > 0 {
			t.Errorf("dashboard: got %+v, want %q", u, why)
		}
	}
	for _, name := range soundServers {
		if part := v.Stats.Upstreams[name]; part.Calls != 1 || part.Failed != 0 {
			t.Errorf("%s: got %d calls, %d failed", name, part.Calls, part.Failed)
		}
	}
}
