package demo_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/demo"
)

// two returns a session of two calls in one turn, made and answered as in a
// direct run.
func two() demo.Session {
	list := demo.Call{Server: "tracker", Tool: "list_issues", Args: map[string]any{"state": "open", "label": "bug"}}
	read := demo.Call{Server: "files", Tool: "read_file", Args: map[string]any{"path": "a/" + strings.Repeat("long/", 20)}}
	return demo.Session{
		Start: 20 * time.Millisecond, Waited: 100 * time.Millisecond, Took: time.Second,
		Answers: []demo.Answer{
			demo.AnswerTo(list, 1, "[1]", 95040*time.Microsecond),
			demo.AnswerTo(read, 1, "x", 100*time.Millisecond),
		},
	}
}

func table(t *testing.T, direct, through demo.Session) string {
	t.Helper()
	var b bytes.Buffer
	if err := demo.WriteTable(demo.NewReport(direct, through, 4), &b, "~/.config/mcpschedd/pipeline_config.toml"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n")
}

func TestTable(t *testing.T) {
	through := two()
	through.Start, through.Waited = 30*time.Millisecond, 101*time.Millisecond
	through.Answers[0].Wait = 101 * time.Millisecond
	through.Answers[1].Wait, through.Answers[1].Disposition = 200*time.Microsecond, "prefetched"
	want := `One agent session, twice: 2 calls in 1 turns, straight to two MCP servers and through mcpschedd.
Think times (2-6 s) and tool times (100-900 ms) are divided by 4 in both. Waits are as measured, in ms.

 #  turn  call                                                      direct  mcpschedd  difference  answered
 1     1  tracker list_issues label="bug" state="open"                95.0      101.0        +6.0  fetched
 2     1  files read_file path="a/long/long/long/long/long/long…     100.0        0.2       -99.8  prefetched
          waited in all (a turn waits for its slowest call)          100.0      101.0        +1.0
          to start, once                                              20.0       30.0       +10.0

Through mcpschedd the agent waited 1.0 ms more, 1.0 % of its waiting.
All 2 answers were the same to the byte.

Next, with mcpschedd on your PATH:
  1. list your servers in ~/.config/mcpschedd/pipeline_config.toml:
       [upstreams.files]
       command = "npx"
       args = ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/project"]
  2. add one line to your client, for Claude Code:
       claude mcp add mcpschedd -- mcpschedd serve`
	if diff := cmp.Diff(want, table(t, two(), through)); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTableLess(t *testing.T) {
	through := two()
	through.Waited = 40 * time.Millisecond
	if got, want := table(t, two(), through), "waited 60.0 ms less, 60.0 % of its waiting."; !strings.Contains(got, want) {
		t.Errorf("got %s, want %q in it", got, want)
	}
}

func TestMismatch(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*demo.Session)
		want   string // "": none
	}{
		{"times and dispositions differ", func(s *demo.Session) { s.Answers[0].Wait, s.Answers[1].Disposition = 1, "hit" }, ""},
		{"an answer differs", func(s *demo.Session) { s.Answers[1].Text = "x " },
			`call 2, files read_file path="a/long/long/long/long/long/long/long/long/long/…: direct and mcpschedd differ`},
		{"an argument differs", func(s *demo.Session) { s.Answers[0].Args = map[string]any{"state": "all"} },
			`call 1, tracker list_issues label="bug" state="open": direct and mcpschedd differ`},
		{"a call is missing", func(s *demo.Session) { s.Answers = s.Answers[:1] },
			"direct and mcpschedd differ in the number of calls"},
	} {
		t.Run(test.name, func(t *testing.T) {
			through := two()
			test.change(&through)
			r := demo.NewReport(two(), through, 4)
			err, got := demo.Mismatch(r), ""
			if err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if r.Equal != (test.want == "") {
				t.Errorf("equal: got %v", r.Equal)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := demo.WriteJSON(demo.NewReport(two(), two(), 4), &b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	total := map[string]any{"start_ms": 20.0, "waited_ms": 100.0, "took_ms": 1000.0}
	want := map[string]any{
		"speed": 4.0, "turns": 1.0, "equal": true, "direct": total, "mcpschedd": total,
		"calls": []any{
			map[string]any{"turn": 1.0, "upstream": "tracker", "tool": "list_issues", "arguments": map[string]any{"state": "open", "label": "bug"},
				"bytes": 3.0, "direct_ms": 95.0, "mcpschedd_ms": 95.0, "answered": "fetched", "equal": true},
			map[string]any{"turn": 1.0, "upstream": "files", "tool": "read_file", "arguments": map[string]any{"path": "a/" + strings.Repeat("long/", 20)},
				"bytes": 1.0, "direct_ms": 100.0, "mcpschedd_ms": 100.0, "answered": "fetched", "equal": true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

func TestConfigFile(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"nothing set", nil, "~/.config/mcpschedd/pipeline_config.toml"},
		{"XDG", map[string]string{"XDG_CONFIG_HOME": "/x"}, "/x/mcpschedd/pipeline_config.toml"},
		{"named", map[string]string{"XDG_CONFIG_HOME": "/x", "MCPSCHEDD_CONFIG": "/y.toml"}, "/y.toml"},
	} {
		if got := demo.ConfigFile(func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}
