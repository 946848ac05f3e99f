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

// told is what mcpschedd said of the two calls.
func told(t *testing.T) *demo.Account {
	t.Helper()
	a := &demo.Account{}
	if err := json.Unmarshal([]byte(`{"totals":{"calls":2,"served_stored":1,"fetched":1,"upstream_amplification":2,
		"prefetch":{"issued":2,"open":1,"used":1,"late":1,"wasted":{"expired":1,"error":0}},"tool_ms_hidden_prefetch":99.84,
		"declined":{"gate":2,"low_probability":10,"cap":2}}}`), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTable(t *testing.T) {
	through := two()
	through.Start, through.Waited = 30*time.Millisecond, 101*time.Millisecond
	through.Answers[0].Wait = 101 * time.Millisecond
	through.Answers[1].Wait, through.Answers[1].Disposition = 200*time.Microsecond, "hit"
	through.Account = told(t)
	want := `One agent session, twice: 2 calls in 1 turns, straight to two MCP servers and through mcpschedd.
Think times (2-6 s), tool times (100-900 ms) and the times that mcpschedd is told are divided by 4.
Waits are as measured, in ms: █ through mcpschedd, ░ what more it was directly.

 #  turn  call                                            direct  mcpschedd  difference  answered
 1     1  tracker list_issues label="bug" state="open"      95.0      101.0        +6.0  fetched  ████████████████████
 2     1  files read_file path="a/long/long/long/long…     100.0        0.2       -99.8  hit      ░░░░░░░░░░░░░░░░░░░░
          waited on calls that only read                   195.0      101.2       -93.8
          waited in all, a turn for its slowest call       100.0      101.0        +1.0
          to start, once                                    20.0       30.0       +10.0

mcpschedd's own account (its resource mcpschedd://stats):
  3 prefetches made: 1 used (1 late), 2 wasted (1 expired, 1 never asked)
  4 calls sent to the servers for the agent's 2: 2.00 each
  99.8 ms of waiting hidden
  thought of and not made: 10 low probability, 2 cap, 2 gate

Through mcpschedd the agent waited 48.1 % less on calls that only read, and 1.0 % more in all.
All 2 answers were the same to the byte.

What mcpschedd was told: mcpschedd demo --show-config
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

// A bar shows what was waited; of the direct wait only what goes beyond that.
func TestBars(t *testing.T) {
	for _, test := range []struct {
		name            string
		direct, through time.Duration
		want            string // of the second call; the first one takes 100 ms
	}{
		{"half of it", 100 * time.Millisecond, 50 * time.Millisecond, "██████████░░░░░░░░░░"},
		{"as long", 50 * time.Millisecond, 50 * time.Millisecond, "██████████"},
		{"longer", 50 * time.Millisecond, 100 * time.Millisecond, "████████████████████"},
		{"nothing to be seen", time.Millisecond, time.Millisecond, ""},
	} {
		direct, through := two(), two()
		direct.Answers[1].Wait, through.Answers[1].Wait = test.direct, test.through
		direct.Answers[0].Wait, through.Answers[0].Wait = 100*time.Millisecond, 100*time.Millisecond
		_, rest, _ := strings.Cut(table(t, direct, through), "\n 2 ")
		line, _, _ := strings.Cut(rest, "\n")
		_, got, _ := strings.Cut(line, "fetched")
		if got = strings.TrimSpace(got); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// What only reads is summed call by call, and nothing else is.
func TestReadOnly(t *testing.T) {
	direct, through := two(), two()
	direct.Answers[1].ReadOnly, through.Answers[1].ReadOnly = false, false
	through.Answers[0].Wait = 0
	r := demo.NewReport(direct, through, 4)
	if r.Direct.ReadMs != 95 || r.Through.ReadMs != 0 || !r.Rows[0].ReadOnly || r.Rows[1].ReadOnly {
		t.Errorf("got %v and %v ms, calls %v and %v; want 95 and 0 ms of the first call alone",
			r.Direct.ReadMs, r.Through.ReadMs, r.Rows[0].ReadOnly, r.Rows[1].ReadOnly)
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
	through := two()
	through.Account = told(t)
	if err := demo.WriteJSON(demo.NewReport(two(), through, 4), &b); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	total := map[string]any{"start_ms": 20.0, "read_only_ms": 195.0, "waited_ms": 100.0, "took_ms": 1000.0}
	want := map[string]any{
		"speed": 4.0, "turns": 1.0, "equal": true, "direct": total, "mcpschedd": total,
		"stats": map[string]any{
			"totals": map[string]any{
				"calls": 2.0, "served_stored": 1.0, "joined": 0.0, "fetched": 1.0, "upstream_amplification": 2.0, "tool_ms_hidden_prefetch": 99.84,
				"declined": map[string]any{"gate": 2.0, "low_probability": 10.0, "cap": 2.0},
				"prefetch": map[string]any{"issued": 2.0, "open": 1.0, "used": 1.0, "late": 1.0, "wasted": map[string]any{"expired": 1.0, "error": 0.0}},
			},
		},
		"calls": []any{
			map[string]any{"turn": 1.0, "upstream": "tracker", "tool": "list_issues", "arguments": map[string]any{"state": "open", "label": "bug"},
				"read_only": true, "bytes": 3.0, "direct_ms": 95.0, "mcpschedd_ms": 95.0, "answered": "fetched", "equal": true},
			map[string]any{"turn": 1.0, "upstream": "files", "tool": "read_file", "arguments": map[string]any{"path": "a/" + strings.Repeat("long/", 20)},
				"read_only": true, "bytes": 1.0, "direct_ms": 100.0, "mcpschedd_ms": 100.0, "answered": "fetched", "equal": true},
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
