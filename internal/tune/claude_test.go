package tune_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/tune"
)

// logs returns a reader of the session logs for two upstreams.
func logs(t testing.TB, files map[string]string) (dir string, l *tune.ClaudeLogs, calls *[]replay.Call, bad *[]string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	calls, bad = new([]replay.Call), new([]string)
	l = &tune.ClaudeLogs{
		Upstreams:  []string{"github", "wiki"},
		UpstreamOf: func(string) string { return "" },
		Each:       func(some []replay.Call) { *calls = append(*calls, some...) },
		Bad: func(p record.Problem) {
			*bad = append(*bad, fmt.Sprintf("%s:%d: %s", filepath.Base(p.File), p.Line, p.Text))
		},
	}
	return dir, l, calls, bad
}

// use returns a line with a call, as the client writes it.
func use(session, message, id, name, input, at string) string {
	return fmt.Sprintf(`{"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/p","sessionId":%q,"version":"2.1.0","type":"assistant","uuid":%q,"timestamp":%q,"requestId":"r","message":{"id":%q,"type":"message","role":"assistant","model":"m","content":[{"type":"tool_use","id":%q,"name":%q,"input":%s}],"stop_reason":null,"usage":{"input_tokens":1}}}`+"\n",
		session, "u-"+id, at, message, id, name, input)
}

// result returns a line with the answer; content is JSON.
func result(session, id, content, at string, failed bool) string {
	return fmt.Sprintf(`{"parentUuid":"x","isSidechain":false,"sessionId":%q,"type":"user","uuid":%q,"timestamp":%q,"message":{"role":"user","content":[{"tool_use_id":%q,"type":"tool_result","content":%s,"is_error":%v}]},"toolUseResult":[{"type":"text","text":"x"}]}`+"\n",
		session, "r-"+id, at, id, content, failed)
}

// short returns a line for each call.
func short(calls []replay.Call) []string {
	var all []string
	for _, c := range calls {
		took := "?"
		if c.Start != nil && c.End != nil {
			took = fmt.Sprint(*c.End-*c.Start, "ms")
		}
		failed := ""
		if c.Failed {
			failed = " failed"
		}
		all = append(all, fmt.Sprintf("%s %d %s %s = %s (%d) %s%s", c.Session, c.Batch, c.Tool, c.Arguments, c.Text, c.Bytes, took, failed))
	}
	return all
}

func readLogs(t *testing.T, dir string, l *tune.ClaudeLogs) {
	t.Helper()
	if err := l.Read(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

func TestClaudeSession(t *testing.T) {
	summary := `{"type":"summary","summary":"Fixed it","leafUuid":"x"}` + "\n"
	compact := `{"type":"system","subtype":"compact_boundary","content":"Conversation compacted","sessionId":"s1","uuid":"c","timestamp":"2026-03-01T10:00:30.000Z","compactMetadata":{"trigger":"auto","preTokens":1}}` + "\n" +
		`{"type":"user","isCompactSummary":true,"sessionId":"s1","uuid":"d","timestamp":"2026-03-01T10:00:31.000Z","message":{"role":"user","content":"This session is being continued: a \"tool_use\" was made"}}` + "\n"
	first := use("s1", "m1", "t1", "mcp__github__list_issues", `{"owner":"o"}`, "2026-03-01T10:00:00.000Z") +
		use("s1", "m1", "t2", "mcp__wiki__search", `{"q":"x"}`, "2026-03-01T10:00:00.100Z") + // same response, one block per line
		use("s1", "m1", "t2", "mcp__wiki__search", `{"q":"x"}`, "2026-03-01T10:00:00.100Z") + // repeated
		result("s1", "t2", `"found"`, "2026-03-01T10:00:01.100Z", false) +
		result("s1", "t1", `[{"type":"text","text":"{\"n\":7}"},{"type":"text","text":"more"}]`, "2026-03-01T10:00:02.500Z", false)
	second := use("s1", "m2", "t3", "mcp__mcpschedd__github__get_issue", `{"n":7}`, "2026-03-01T10:00:40Z") +
		result("s1", "t3", `"gone"`, "2026-03-01T10:00:41Z", true)
	resumed := strings.ReplaceAll(first, `"s1"`, `"s2"`) // a copy under another session id
	dir, l, calls, bad := logs(t, map[string]string{
		"-p/s1.jsonl":    summary + first + compact + second,
		"-p/s2.jsonl":    resumed + use("s2", "m9", "t9", "mcp__github__get_issue", `{}`, "2026-03-02T10:00:00Z") + result("s2", "t9", `""`, "2026-03-02T10:00:00Z", false),
		"-p/memory.md":   "no log",
		"-q/empty.jsonl": "",
	})
	readLogs(t, dir, l)
	want := []string{
		`s1 1 github/list_issues {"owner":"o"} = {"n":7}` + "\nmore (12) 2500ms",
		`s1 1 wiki/search {"q":"x"} = found (5) 1000ms`,
		`s1 2 github/get_issue {"n":7} = gone (4) 1000ms failed`,
		`s2 1 github/get_issue {} =  (0) 0ms`,
	}
	if diff := cmp.Diff(want, short(*calls)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(*bad) > 0 {
		t.Errorf("bad lines %q, want none", *bad)
	}
}

// Calls and answers without a time are read, without a duration.
func TestClaudeWithoutTimes(t *testing.T) {
	const at = "2026-03-01T10:00:00Z"
	never := strings.NewReplacer(`"timestamp":"`+at+`",`, "")
	dir, l, calls, bad := logs(t, map[string]string{
		"s.jsonl": never.Replace(use("s", "m1", "1", "mcp__github__a", `{}`, at)) + result("s", "1", `"x"`, at, false) +
			use("s", "m2", "2", "mcp__github__b", `{}`, at) + never.Replace(result("s", "2", `"x"`, at, false)),
	})
	readLogs(t, dir, l)
	want := []string{"s 1 github/a {} = x (1) ?", "s 2 github/b {} = x (1) ?"}
	if diff := cmp.Diff(want, short(*calls)); diff != "" || len(*bad) > 0 || (*calls)[0].Start != nil {
		t.Errorf("calls (-want +got):\n%s\n%q", diff, *bad)
	}
}

func TestClaudeSubAgents(t *testing.T) {
	side := func(line, agent string) string {
		line = strings.ReplaceAll(line, `"isSidechain":false`, `"isSidechain":true`)
		return strings.ReplaceAll(line, `"cwd":"/p"`, `"agentId":`+fmt.Sprintf("%q", agent))
	}
	main := use("s", "m1", "1", "mcp__github__a", `{}`, "2026-03-01T10:00:00Z") + result("s", "1", `"1"`, "2026-03-01T10:00:01Z", false)
	dir, l, calls, _ := logs(t, map[string]string{
		"p/s.jsonl": main,
		"p/s/subagents/agent-a7.jsonl": side(use("s", "m2", "2", "mcp__github__b", `{}`, "2026-03-01T10:00:00Z"), "a7") +
			side(result("s", "2", `"2"`, "2026-03-01T10:00:01Z", false), "a7"),
	})
	readLogs(t, dir, l)
	got := make(map[string]string)
	for _, c := range *calls {
		got[c.Session] += c.Tool[len("github/"):]
	}
	if diff := cmp.Diff(map[string]string{"s": "a", "s/a7": "b"}, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
}

func TestClaudeNames(t *testing.T) {
	tests := map[string]string{ // name in the log → NAME/TOOL, "-" for tools of no upstream
		"mcp__github__list_issues":              "github/list_issues",
		"mcp__github__odd__name":                "github/odd__name",
		"mcp__mcpschedd__github__list_issues":   "github/list_issues",
		"mcp__mcpschedd__github__odd__name":     "github/odd__name",
		"mcp__hub__wiki__search":                "wiki/search", // the proxy under another name
		"mcp__mcpschedd__lookup":                "wiki/lookup", // resolved by UpstreamOf
		"mcp__mcpschedd__plan__heartbeat":       "-",
		"mcp__mcpschedd__execute_tool_plan":     "-",
		"mcp__mcpschedd__mcpschedd_read_result": "-",
		"mcp__mcpschedd__other":                 "-",
		"mcp__jira__search":                     "-",
		"mcp__plugin_x_github__list_issues":     "-",
		"mcp__github":                           "-",
		"mcp__github__":                         "-",
		"mcp__":                                 "-",
		"Read":                                  "-",
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			dir, l, calls, _ := logs(t, map[string]string{
				"s.jsonl": use("s", "m", "1", name, `{}`, "2026-03-01T10:00:00Z") + result("s", "1", `"x"`, "2026-03-01T10:00:01Z", false),
			})
			l.UpstreamOf = func(tool string) string {
				if tool == "lookup" {
					return "wiki"
				}
				return ""
			}
			readLogs(t, dir, l)
			got := "-"
			if len(*calls) > 0 {
				got = (*calls)[0].Tool
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestClaudeAnswers(t *testing.T) {
	kb := strings.Repeat("é", 300<<10/2)
	for _, test := range []struct {
		name, content string
		failed        bool
		text          string // prefix
		bytes         int
	}{
		{"text", `"abc"`, false, "abc", 3},
		{"none", `null`, false, "", 0},
		{"a picture", `[{"type":"text","text":"see"},{"type":"image","source":{"data":"AAAA"}}]`, false, "see", 3},
		{"neither", `{"a":1}`, false, "", 0},
		{"long", `"` + kb + `"`, false, "éé", len(kb)},
		{"kept elsewhere", `"<persisted-output>\nOutput too large (36.5KB). Full output saved to: /x.txt\n\nPreview (first 2KB):\nabc"`, false, "", 0},
		{"kept elsewhere, of an MCP server", `"Error: result (123,456 characters) exceeds maximum allowed tokens. Output has been saved to /x.txt"`, false, "", 0},
		{"failed", `"no such issue"`, true, "no such issue", 13},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, l, calls, _ := logs(t, map[string]string{
				"s.jsonl": use("s", "m", "1", "mcp__github__a", `{}`, "2026-03-01T10:00:00Z") + result("s", "1", test.content, "2026-03-01T10:00:01Z", test.failed),
			})
			readLogs(t, dir, l)
			if len(*calls) != 1 {
				t.Fatalf("got %d calls, want 1", len(*calls))
			}
			c := (*calls)[0]
			if c.Bytes != test.bytes || !strings.HasPrefix(c.Text, test.text) || test.text == "" && c.Text != "" || c.Failed != test.failed || len(c.Text) > 256<<10 {
				t.Errorf("got %d bytes, %.20q of %d, failed %v; want %d, %q, %v", c.Bytes, c.Text, len(c.Text), c.Failed, test.bytes, test.text, test.failed)
			}
		})
	}
}

// Broken lines are reported with their number, and the others are read.
func TestClaudeBrokenLines(t *testing.T) {
	good := use("s", "m", "1", "mcp__github__a", `{}`, "2026-03-01T10:00:00Z")
	answer := result("s", "1", `"x"`, "2026-03-01T10:00:01Z", false)
	dir, l, calls, bad := logs(t, map[string]string{
		"a.jsonl": "\ufeff" + good + "\r\n" + `{"type":"assistant","message":{"content":[{"type":"tool_use",` + "\n" +
			`{"type":"assistant","message":{"content":[{"type":"tool_use"}}}` + "\n" + "\x00\x00\n" + answer +
			use("s", "m2", "2", "mcp__github__open", `{}`, "never") + good[:len(good)/2],
		"b.jsonl": strings.Repeat("not ours\n", 5),
		"c.jsonl": use("s", "m3", "3", "mcp__github__b", `["odd"]`, "2026-03-01T10:00:00Z") + result("s", "3", `"x"`, "2026-03-01T10:00:01Z", false),
		"d.jsonl": use("s", "m3", "4", "mcp__github__back", `{}`, "2026-03-01T10:00:09Z") + result("s", "4", `"x"`, "2026-03-01T10:00:01Z", false),
	})
	readLogs(t, dir, l)
	want := []string{"s 1 github/a {} = x (1) 1000ms", "s 1 github/b {} = x (1) 1000ms", "s 1 github/back {} = x (1) ?"}
	if diff := cmp.Diff(want, short(*calls)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	var places []string
	for _, b := range *bad {
		places = append(places, strings.Join(strings.SplitN(b, ":", 3)[:2], ":"))
	}
	if diff := cmp.Diff([]string{"a.jsonl:3", "a.jsonl:4", "a.jsonl:5", "a.jsonl:7", "a.jsonl:8", "b.jsonl:1", "b.jsonl:2", "b.jsonl:3", "b.jsonl:4", "b.jsonl:5"}, places); diff != "" {
		t.Errorf("places (-want +got):\n%s\n%q", diff, *bad)
	}
}

// Reading of a file stops at a line that is too long.
func TestClaudeLongLine(t *testing.T) {
	call := use("s", "m", "1", "mcp__github__a", `{}`, "2026-03-01T10:00:00Z")
	answer := result("s", "1", `"x"`, "2026-03-01T10:00:01Z", false)
	long := strings.Repeat("x", 64<<20+1)
	dir, l, calls, bad := logs(t, map[string]string{"s.jsonl": call + answer + long + "\n" + call})
	readLogs(t, dir, l)
	if len(*calls) != 1 {
		t.Errorf("got %d calls, want 1", len(*calls))
	}
	want := []string{"s.jsonl:3: bufio.Scanner: token too long: the rest of the file is not read"}
	if diff := cmp.Diff(want, *bad); diff != "" {
		t.Errorf("bad lines (-want +got):\n%s", diff)
	}
}

// The folder may be a link.
func TestClaudeLinkedFolder(t *testing.T) {
	call := use("s", "m", "1", "mcp__github__a", `{}`, "2026-03-01T10:00:00Z")
	dir, l, calls, _ := logs(t, map[string]string{"s.jsonl": call + result("s", "1", `"x"`, "2026-03-01T10:00:01Z", false)})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err) // Windows asks for a privilege
	}
	readLogs(t, link, l)
	if len(*calls) != 1 {
		t.Errorf("got %d calls, want 1", len(*calls))
	}
}

func TestClaudeFolder(t *testing.T) {
	dir, l, _, _ := logs(t, map[string]string{"s.jsonl": "", "link-target.txt": "x"})
	for _, name := range []string{"missing", "s.jsonl"} {
		if err := l.Read(t.Context(), filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(dir); err != nil { // not so for root, nor on Windows
		if err := l.Read(t.Context(), dir); err == nil {
			t.Error("a folder that cannot be read: no error")
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Read(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of ctx: %v", err)
	}
}

func FuzzClaude(f *testing.F) {
	f.Add([]byte(use("s", "m", "1", "mcp__github__a", `{"a":1}`, "2026-03-01T10:00:00Z") + result("s", "1", `[{"type":"text","text":"x"}]`, "2026-03-01T10:00:01Z", true)))
	f.Add([]byte(`{"type":"assistant","isSidechain":true,"uuid":"a","parentUuid":"a","message":{"content":[{"type":"tool_use","id":"1","name":"mcp__github__a","input":null}]}}` + "\n" +
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"1","content":"<persisted-output>\nOutput too large (9e99GB)"}]},"toolUseResult":"User rejected tool use"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir, l, calls, _ := logs(t, map[string]string{"f.jsonl": string(data)})
		if err := l.Read(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		batch := make(map[string]int)
		for _, c := range *calls {
			if !strings.HasPrefix(c.Tool, "github/") && !strings.HasPrefix(c.Tool, "wiki/") || !json.Valid(c.Arguments) || c.Arguments[0] != '{' ||
				c.Bytes < 0 || c.Batch < batch[c.Session] || c.End != nil && *c.End < *c.Start {
				t.Errorf("odd call %+v", c)
			}
			batch[c.Session] = c.Batch
		}
	})
}
