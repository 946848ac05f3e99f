package demo_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/demo"
)

type caller = func(context.Context, demo.Call) (*mcp.CallToolResult, error)

// inProcess connects to both upstreams in this process. The connections are closed at the end of
// the test or its bubble.
func inProcess(t *testing.T, speed float64) (do caller, end func()) {
	t.Helper()
	clients := map[string]*client.Client{}
	for _, name := range []string{"tracker", "files"} {
		s, err := demo.NewUpstream(name, speed)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.NewInProcessClient(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
			t.Fatal(err)
		}
		clients[name] = c
	}
	do = func(ctx context.Context, c demo.Call) (*mcp.CallToolResult, error) {
		return clients[c.Server].CallTool(ctx, mcp.CallToolRequest{
			Params: mcp.CallToolParams{Name: c.Tool, Arguments: c.Args}})
	}
	return do, func() {
		for _, c := range clients {
			c.Close()
		}
	}
}

// The bubble's clock is exact: each call takes its latency, and the session takes well under 20
// seconds.
func TestScriptTimes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		do, end := inProcess(t, demo.DefaultSpeed)
		defer end()
		var s demo.Played
		if err := demo.Play(&s, t.Context(), demo.Script, demo.DefaultSpeed, do); err != nil {
			t.Fatal(err)
		}
		if len(s.Answers) != 20 {
			t.Errorf("got %d calls, want 20", len(s.Answers))
		}
		slowest := map[int]time.Duration{}
		for _, a := range s.Answers {
			want := demo.Shorten(demo.Latency(a.Tool, a.Args), demo.DefaultSpeed)
			if a.Wait != want {
				t.Errorf("turn %d, %s: got a wait of %v, want %v", a.Turn, a.Tool, a.Wait, want)
			}
			slowest[a.Turn] = max(slowest[a.Turn], want)
		}
		var waited, thought time.Duration
		for n, turn := range demo.Script {
			waited += slowest[n+1]
			thought += demo.Shorten(turn.Think, demo.DefaultSpeed)
			if first := n == 0; first != (turn.Think == 0) || !first && (turn.Think < 2*time.Second || turn.Think > 6*time.Second) {
				t.Errorf("turn %d: got a think time of %v, want 2-6 s, none at first", n+1, turn.Think)
			}
		}
		if s.Waited != waited {
			t.Errorf("waited: got %v, want %v", s.Waited, waited)
		}
		if took := waited + thought; took > 17*time.Second {
			t.Errorf("the session takes %v, want at most 17 s", took)
		}
	})
}

// elsewhere changes the data of the answers: issue numbers are 1000 higher, and directories,
// functions, people and the log line have other names. Only an agent that takes its arguments from
// the answers can complete the script.
func elsewhere(do caller) caller {
	there := strings.NewReplacer("billing", "payroll", "docs/webhooks", "docs/callbacks", "chargeOnce", "payUnlessPaid",
		"mira", "wanda", "tomas", "henk", "ines", "olga", "duplicate charge for", "second time for")
	back := strings.NewReplacer("payroll", "billing", "docs/callbacks", "docs/webhooks", "payUnlessPaid", "chargeOnce",
		"wanda", "mira", "henk", "tomas", "olga", "ines", "second time for", "duplicate charge for")
	issue := regexp.MustCompile(`("number":|#)(\d+)`)
	return func(ctx context.Context, c demo.Call) (*mcp.CallToolResult, error) {
		args := map[string]any{}
		for name, v := range c.Args {
			switch v := v.(type) {
			case int:
				if v <= 1000 {
					return nil, fmt.Errorf("%s %d is not from any answer", name, v)
				}
				args[name] = v - 1000
			case string:
				if v != there.Replace(v) {
					return nil, fmt.Errorf("%s %q is not from any answer", name, v)
				}
				args[name] = issue.ReplaceAllStringFunc(back.Replace(v), shift(issue, -1000))
			case []string:
				var all []string
				for _, s := range v {
					all = append(all, back.Replace(s))
				}
				args[name] = all
			default:
				return nil, fmt.Errorf("%s: argument of type %T", name, v)
			}
		}
		c.Args = args
		r, err := do(ctx, c)
		if err != nil {
			return nil, err
		}
		text := r.Content[0].(mcp.TextContent)
		text.Text = issue.ReplaceAllStringFunc(there.Replace(text.Text), shift(issue, 1000))
		r.Content[0] = text
		return r, nil
	}
}

func shift(issue *regexp.Regexp, by int) func(string) string {
	return func(s string) string {
		m := issue.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		return m[1] + strconv.Itoa(n+by)
	}
}

func TestArgumentsComeFromAnswers(t *testing.T) {
	const atOnce = 1e9
	here, end := inProcess(t, atOnce)
	defer end()
	var want, got demo.Played
	if err := demo.Play(&want, t.Context(), demo.Script, atOnce, here); err != nil {
		t.Fatal(err)
	}
	there, end := inProcess(t, atOnce)
	defer end()
	if err := demo.Play(&got, t.Context(), demo.Script, atOnce, elsewhere(there)); err != nil {
		t.Fatal(err)
	}
	if len(got.Answers) != len(want.Answers) {
		t.Fatalf("got %d calls, want %d", len(got.Answers), len(want.Answers))
	}
	fixed := 0
	for i, w := range want.Answers {
		g := got.Answers[i]
		if g.Server != w.Server || g.Tool != w.Tool {
			t.Errorf("call %d: got %s %s, want %s %s", i+1, g.Server, g.Tool, w.Server, w.Tool)
		}
		if fmt.Sprint(g.Args) == fmt.Sprint(w.Args) {
			fixed++
		}
	}
	// The only argument that the agent does not take from an answer is the label of the task, open
	// bugs.
	if fixed != 3 {
		t.Errorf("calls with the same arguments in both cases: got %d, want the 3 lists", fixed)
	}
}

func TestScriptStopsAtAnError(t *testing.T) {
	const atOnce = 1e9
	do, end := inProcess(t, atOnce)
	defer end()
	for _, test := range []struct {
		name   string
		answer *mcp.CallToolResult
		want   string
	}{
		{"tool error", mcp.NewToolResultError("out of order"), "turn 3: tracker get_issue: got {\"type\":\"text\",\"text\":\"out of order\"}, want a text"},
		{"no content", &mcp.CallToolResult{}, "turn 3: tracker get_issue: got 0 content blocks, want 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			var s demo.Played
			err := demo.Play(&s, t.Context(), demo.Script, atOnce, func(ctx context.Context, c demo.Call) (*mcp.CallToolResult, error) {
				if c.Tool == "get_issue" {
					if calls++; calls == 2 {
						return test.answer, nil
					}
				}
				return do(ctx, c)
			})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v, want %s", err, test.want)
			}
			if test.name != "no content" && len(s.Answers) != 3 {
				t.Errorf("got %d answers, want the 3 before", len(s.Answers))
			}
		})
	}
}
