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

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
)

// brokenServers are four servers that cannot be used, each for another reason, and the text by
// which every part of the program reports the reason.
var brokenServers = map[string]string{
	"unset":   "environment variable MCPSCHEDD_NO_SUCH_VARIABLE is not set",
	"missing": `command "no-such-command" not found in PATH`,
	"crash":   "exit status 4",
	"rubbish": "it does not answer, and writes something that is not an MCP message: Welcome",
}

var soundServers = []string{"one", "two", "three", "four", "five"}

// nineServers writes a configuration with the working servers and the broken ones.
func nineServers(t *testing.T) string {
	var config strings.Builder
	config.WriteString("[server]\nstate_dir = \"mcpschedd\"\nstartup_wait = \"500ms\"\nstart_timeout = \"8s\"\ndrain_timeout = \"10ms\"\n" +
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

// stateless returns a request of a client without a handshake.
func stateless(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, id, method, params)
}

// If four of nine servers are broken, the client, stats, the dashboard and check report which ones
// and why, and the other five work.
func TestFourOfNineServersAreBroken(t *testing.T) {
	t.Parallel()
	p := startProgram(t, nineServers(t))
	file := filepath.Join(filepath.Dir(p.state), "pipeline_config.toml")

	first := p.ask(t, stateless(1, "server/discover", ""))
	for _, name := range []string{"unset", "missing"} { // the others have not failed yet
		if !strings.Contains(first, name+" (") || !strings.Contains(first, quotedText(brokenServers[name])) {
			t.Errorf("instructions: nothing of %s in %s", name, first)
		}
	}
	p.ask(t, stateless(2, "tools/list", "")) // starts the servers
	next := watching(t, "--watch", "--json", "--config", file)
	for !settled(next()) {
	}
	list := p.ask(t, stateless(3, "tools/list", ""))
	for i, name := range soundServers {
		if !strings.Contains(list, `"`+name+`__echo"`) {
			t.Errorf("tools/list: nothing of %s in %s", name, list)
		}
		if got := p.ask(t, stateless(10+i, "tools/call", `"name":"`+name+`__echo",`)); !strings.Contains(got, `"text":"`+name+`"`) {
			t.Errorf("%s: got %s", name, got)
		}
	}
	for name, why := range brokenServers {
		if strings.Contains(list, `"`+name+"__") {
			t.Errorf("tools/list: tools of %s", name)
		}
		got := p.ask(t, stateless(20, "tools/call", `"name":"`+name+`__echo",`))
		if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, name) || !strings.Contains(got, quotedText(why)) {
			t.Errorf("%s: got %s, want %s", name, got, why)
		}
	}
	for !saysWhy(p.ask(t, stateless(30, "server/discover", "")), quotedText) {
		next() // crash is restarted now and then, and has not failed at such a moment
	}
	stats := func() string {
		var out bytes.Buffer
		if code := run(t.Context(), []string{"stats", "--config", file}, &out, os.Stderr); code != 0 {
			t.Fatalf("stats: got exit code %d", code)
		}
		return out.String()
	}
	for text := stats(); !saysWhy(text, strings.Clone); text = stats() {
		next()
	}
	if text := stats(); !strings.Contains(text, "\nNot available now: crash, missing, rubbish, unset.\n") {
		t.Errorf("stats: got\n%s", text)
	}
	page := open(t, "--config", file)
	page.get(page.address)
	wantView(t, page.view().View)

	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"check", "--connect", "--config", file}, &out, &errs); code != exitFailed {
		t.Errorf("check: got exit code %d, want %d", code, exitFailed)
	}
	for name, why := range brokenServers {
		if !strings.Contains(out.String(), "✗ "+name+": ") || !strings.Contains(out.String(), why) {
			t.Errorf("check: nothing of %s in\n%s", name, out.String())
		}
	}
	if !strings.Contains(out.String(), "5 of 9 servers work; not available: unset, missing, crash, rubbish\n") || !strings.Contains(errs.String(), "4 of 9 servers are not available") {
		t.Errorf("check: got\n%s%s", out.String(), errs.String())
	}
}

// settled reports whether each sound server is ready and each broken one has failed.
func settled(s record.Stats) bool {
	return len(s.Running) == 1 && len(s.Running[0].Upstreams) == 9 && !slices.ContainsFunc(s.Running[0].Upstreams, func(u record.UpstreamStatus) bool {
		_, broken := brokenServers[u.Name]
		return broken && u.Error == "" || !broken && u.State != "ready"
	})
}

// saysWhy reports whether a text gives the reasons of all broken servers.
func saysWhy(text string, written func(string) string) bool {
	for _, why := range brokenServers {
		if !strings.Contains(text, written(why)) {
			return false
		}
	}
	return true
}

// quotedText returns a text as it is in JSON.
func quotedText(text string) string {
	quoted, _ := json.Marshal(text)
	return strings.Trim(string(quoted), `"`)
}

// wantView checks the view that the dashboard's page gets.
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
