package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcpschedd/internal/mcptest"
)

// hook runs mcpschedd hook as a client does. It must print nothing and exit with 0.
func (d *daemonTest) hook(in io.Reader, session string) {
	d.Helper()
	cmd := exec.Command(self, "hook", "--config", d.file)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+filepath.Dir(d.state), "CLAUDE_CODE_SESSION_ID="+session, "CLAUDE_PID=", "CLAUDE_PROJECT_DIR=")
	cmd.Stdin = in
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil || said.Len() > 0 {
		d.Errorf("got %v, %q; want silence and exit code 0", err, &said)
	}
}

// report sends a report of the session "a".
func (d *daemonTest) report(event, rest string) {
	d.Helper()
	d.hook(strings.NewReader(`{"session_id":"a","hook_event_name":"`+event+`"`+rest+`}`), "a")
}

// readsFiles configures a server with known tools that reads files: after a call for the path, a
// call for the file is likely.
func readsFiles() string {
	tools := []string{`{"name":"echo","inputSchema":{"type":"object"}}`, `{"name":"read","inputSchema":{"type":"object"}}`}
	return upstreamConfig(mcptest.Options{Name: "files", Tools: tools}) + `
[enrichment]
waste_ms = 0.001
[tools."files/*"]
side_effect_class = "read_only"
speculate = true
cost_model = { latency_ms_p50 = 1000 }
[[tools."files/echo".follow_up]]
tool = "read"
probability = 0.99
args = { path = "$args.path" }
`
}

// fileClient is a client of that server.
type fileClient struct {
	*daemonTest
	p    *program
	path string
	n    int
}

func (r *fileClient) call(tool string) string {
	r.Helper()
	r.n++
	request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": r.n, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": map[string]any{"path": r.path}}})
	if err != nil {
		r.Fatal(err)
	}
	return r.p.ask(r.T, string(request))
}

// prefetches returns the number of prefetches so far.
func (r *fileClient) prefetches() int {
	r.Helper()
	answer := r.p.ask(r.T, `{"jsonrpc":"2.0","id":"stats","method":"resources/read","params":{"uri":"mcpschedd://stats"}}`)
	var a struct {
		Result struct{ Contents []struct{ Text string } }
	}
	var stats struct {
		Totals struct{ Prefetch struct{ Issued int } }
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || len(a.Result.Contents) != 1 || json.Unmarshal([]byte(a.Result.Contents[0].Text), &stats) != nil {
		r.Fatalf("%v: got %s", err, answer)
	}
	return stats.Totals.Prefetch.Issued
}

// readsAhead calls for the path, and waits until the file has been prefetched.
func (r *fileClient) readsAhead(prefetches int) {
	r.Helper()
	r.call("echo")
	mcptest.Eventually(r, fmt.Sprintf("there are %d prefetches", prefetches), func() bool { return r.prefetches() == prefetches })
}

// gets reads the file.
func (r *fileClient) gets(want string, early bool) {
	r.Helper()
	got := r.call("read")
	if !strings.Contains(got, `"`+want+`"`) || strings.Contains(got, `"mcpschedd/disposition"`) != early {
		r.Fatalf("got %s, want %s, read ahead: %v", got, want, early)
	}
}

// With the real program and a real server, a file is prefetched in a turn that the client's hooks
// report. After a reported edit it is read again.
func TestHookReportsEdits(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t, "[dedup]\nsettle = \"0s\"\n"+readsFiles())
	dir := t.TempDir()
	r := &fileClient{daemonTest: d, path: filepath.Join(dir, "file")}
	r.p = d.connect(dir, "CLAUDE_CODE_SESSION_ID=a")
	r.p.ask(t, hello)
	r.p.ask(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`) // waits for the server
	writeFile(t, r.path, "one")
	d.report("SessionStart", `,"source":"startup"`)
	d.report("UserPromptSubmit", `,"prompt":"mend it"`)
	r.readsAhead(1)
	r.gets("one", true)

	const edit = `,"tool_name":"Edit","tool_input":{},"tool_use_id":"1"`
	r.path = filepath.Join(dir, "other")
	writeFile(t, r.path, "one")
	r.readsAhead(2)
	d.report("PreToolUse", edit)
	writeFile(t, r.path, "two")
	d.report("PostToolUse", edit)
	r.gets("two", false)

	r.path = filepath.Join(t.TempDir(), "file") // in another folder, where nothing is known of changes
	r.call("echo")
	r.path = filepath.Join(dir, "third")
	writeFile(t, r.path, "one")
	r.readsAhead(3)
	r.gets("one", true)
	if n := r.prefetches(); n != 3 {
		t.Errorf("got %d prefetches, want none in another folder", n)
	}

	d.report("Stop", `,"background_tasks":[]`)
	r.path = filepath.Join(dir, "file")
	r.call("echo")
	r.gets("one", false) // outside a turn
	r.p.in.Close()
	_, _ = io.Copy(io.Discard, r.p.out)
}

// A server that is configured to run in another directory reads relative paths there, where nothing is
// known of changes.
func TestHookOfAnotherFolder(t *testing.T) {
	t.Parallel()
	away := t.TempDir()
	d := newDaemonTest(t, strings.Replace(readsFiles(), "[enrichment]", "cwd = "+strconv.Quote(away)+"\n[enrichment]", 1)+`
[[tools."files/echo".follow_up]]
tool = "echo"
probability = 0.99
args = {}
[tools."files/echo"]
side_effect_class = "pure"
`)
	r := &fileClient{daemonTest: d, path: "file"}
	r.p = d.connect(t.TempDir(), "CLAUDE_CODE_SESSION_ID=a")
	r.p.ask(t, hello)
	r.p.ask(t, `{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	writeFile(t, filepath.Join(away, "file"), "one")
	d.report("SessionStart", `,"source":"startup"`)
	d.report("UserPromptSubmit", `,"prompt":"mend it"`)
	r.readsAhead(1) // what depends on no file
	r.gets("one", false)
	r.p.in.Close()
	_, _ = io.Copy(io.Discard, r.p.out)
}

// For any input, and whatever the state of the daemon, a hook prints nothing and succeeds.
func TestHookIsSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := &daemonTest{T: t, file: filepath.Join(dir, "pipeline_config.toml"), state: filepath.Join(dir, "mcpschedd")}
	in := map[string]io.Reader{
		"nothing": strings.NewReader(""), "no JSON": strings.NewReader("{"), "100 MB": io.LimitReader(endless{}, 100<<20),
		"an edit": strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Edit"}`),
	}
	for _, text := range in {
		d.hook(text, "a")
	}
	if _, err := os.Stat(d.state); err == nil {
		t.Error("a hook has created the state folder")
	}
	writeFile(t, d.file, "[upstreams")
	d.hook(strings.NewReader(`{"hook_event_name":"Stop"}`), "a")
	for _, args := range [][]string{{"hook", "--no-such-flag"}, {"hook", "--config"}, {"hook", "word"}} {
		out, err := exec.Command(self, args...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%v: got %v, %q", args, err, out)
		}
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
