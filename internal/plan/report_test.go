package plan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/schema"
)

// answerOf runs a plan and returns the answer and the stored results.
func answerOf(t *testing.T, text string, tokens, chars int) (answer, kept string) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		p := parse(t, plan.Limits{}, text)
		s := newServers()
		report := (&plan.Runner{Limits: unlimited, Call: s.call}).Run(t.Context(), p)
		structured, _ := report.Answer(p, excerpt.Limit{Tokens: tokens, Chars: chars}, func(all []byte) string {
			if kept != "" {
				t.Error("results are stored twice")
			}
			kept = string(all)
			return "the-handle"
		})
		answer = string(structured)
		checkAnswer(t, structured, tokens, chars)
	})
	return answer, kept
}

// checkAnswer fails if an answer does not match its documentation or exceeds its limits.
func checkAnswer(t *testing.T, structured []byte, tokens, chars int) {
	t.Helper()
	if !jsonrpc.Valid(structured) {
		t.Fatalf("no JSON: %s", structured)
	}
	s, err := schema.Compile(plan.OutputSchema())
	if err != nil {
		t.Fatal(err)
	}
	if wrong := s.Faults(structured, nil); wrong != nil {
		t.Errorf("%v: %s", wrong, structured)
	}
	if tokens > 0 && len(structured)/4 > tokens || chars > 0 && utf8.RuneCount(structured) > chars {
		t.Errorf("got %d tokens and %d characters, want at most %d and %d", len(structured)/4, utf8.RuneCount(structured), tokens, chars)
	}
}

func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		name, steps   string
		tokens, chars int
		want          string
		kept          string
	}{
		{
			"the guide's example",
			`{"steps":[{"id":"s1","tool":"read","arguments":{"ms":20,"fail":"no"}},{"id":"s2","tool":"read","arguments":{"ms":3,"give":{"x":1}}},
			{"id":"s3","tool":"read","arguments":{"data":"$ref:s1"}}],"output_steps":["s2","s3"]}`, 0, 0,
			`{"steps":[{"id":"s1","status":"failed","reason":"no","ms":20},{"id":"s2","status":"ok","ms":3,"tokens":1},` +
				`{"id":"s3","status":"skipped","reason":"Skipped because dependency 's1' failed"}],"outputs":{"s2":{"x":1}}}`, "",
		},
		{
			"a default", `{"steps":[{"id":"f","tool":"read","arguments":{"fail":"no"},"on_error":"default","default":{"x": 5}}]}`, 0, 0,
			`{"steps":[{"id":"f","status":"failed","reason":"no","ms":0}],"outputs":{"f":{"x":5}}}`, "",
		},
		{
			"a default of a whole for_each, beside max_tokens", `{"steps":[{"id":"a","tool":"read","arguments":{"give":[{"give":"some text"},{"fail":"no"}]}},
			{"id":"f","tool":"write","for_each":"$ref:a","arguments":{"give":"$ref:item.give","fail":"$ref:item.fail"},"on_error":"default","default":[],"max_tokens":1}],"output_steps":["f"]}`, 0, 0,
			`{"steps":[{"id":"a","status":"ok","ms":0},{"id":"f","status":"failed","reason":"2 of 2 items tried; 1 failed; item 1: no","ms":0,"tokens":3,"calls":2}],"outputs":{"f":[]}}`, "",
		},
		{
			"in the order asked for",
			`{"steps":[{"id":"a","tool":"read","arguments":{"give":1}},{"id":"b","tool":"read","arguments":{"give":"two"}}],"output_steps":["b","a"]}`, 0, 0,
			`{"steps":[{"id":"a","status":"ok","ms":0},{"id":"b","status":"ok","ms":0,"tokens":1}],"outputs":{"b":"two","a":1}}`, "",
		},
		{
			"small ones whole, large ones cut",
			`{"steps":[{"id":"a","tool":"read","arguments":{"give":{"n":1}}},{"id":"b","tool":"read","arguments":{"long":1000}},
			{"id":"c","tool":"read","arguments":{"long":2000}}],"output_steps":["c","b","a"]}`, 0, 500,
			`{"steps":[{"id":"a","status":"ok","ms":0,"tokens":1},{"id":"b","status":"ok","ms":0,"tokens":250},{"id":"c","status":"ok","ms":0,"tokens":500}],"outputs":{` +
				`"c":"` + strings.Repeat("x", 28) + `","b":"` + strings.Repeat("x", 28) + `","a":{"n":1}},"handle":"the-handle","left_out":[` +
				`{"pointer":"/c","what":"text","offset":28,"count":1972,"bytes":1972},` +
				`{"pointer":"/b","what":"text","offset":28,"count":972,"bytes":972}]}`, `{"c":"` + strings.Repeat("x", 2000) + `","b":"` + strings.Repeat("x", 1000) + `","a":{"n":1},"$steps":[{"id":"a","status":"ok","ms":0,"tokens":1},{"id":"b","status":"ok","ms":0,"tokens":250},{"id":"c","status":"ok","ms":0,"tokens":500}]}`,
		},
		{
			"max_tokens",
			`{"steps":[{"id":"a","tool":"read","arguments":{"give":[{"n":1},{"n":2},{"n":3},{"n":4}]},"max_tokens":10}]}`, 0, 0,
			`{"steps":[{"id":"a","status":"ok","ms":0,"tokens":8}],"outputs":{"a":[{"n":1},{"n":2},{"n":3},{"n":4}]}}`, "",
		},
		{
			"max_tokens that are fewer",
			`{"steps":[{"id":"a","tool":"read","arguments":{"give":[{"n":1},{"n":2},{"n":3},{"n":4}]},"max_tokens":5}]}`, 0, 0,
			`{"steps":[{"id":"a","status":"ok","ms":0,"tokens":8}],"outputs":{"a":[{"n":1},{"n":2}]},` +
				`"handle":"the-handle","left_out":[{"pointer":"/a","what":"items","offset":2,"count":2,"bytes":14}]}`, `{"a":[{"n":1},{"n":2},{"n":3},{"n":4}],"$steps":[{"id":"a","status":"ok","ms":0,"tokens":8}]}`,
		},
		{
			"no room for any result",
			`{"steps":[{"id":"a","tool":"read","arguments":{"long":3000}}]}`, 0, 150,
			`{"steps":[],"steps_left_out":1,"outputs":{},"handle":"the-handle","left_out":[{"pointer":"/a","what":"field","count":1,"bytes":3002}]}`, `{"a":"` + strings.Repeat("x", 3000) + `","$steps":[{"id":"a","status":"ok","ms":0,"tokens":750}]}`,
		},
		{
			"items of for_each",
			`{"steps":[{"id":"a","tool":"read","arguments":{"give":[1,2,3]}},{"id":"e","tool":"read","for_each":"$ref:a","max_items":2,"arguments":{"ms":7,"give":"$ref:item"}}],"output_steps":["e"]}`, 0, 0,
			`{"steps":[{"id":"a","status":"ok","ms":0},{"id":"e","status":"ok","reason":"2 of 3 items tried","ms":7,"tokens":2,"calls":2}],"outputs":{"e":[1,2]}}`, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, kept := answerOf(t, c.steps, c.tokens, c.chars)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if diff := cmp.Diff(c.kept, kept); diff != "" {
				t.Errorf("kept: -want +got\n%s", diff)
			}
		})
	}
}

// The statuses of a hundred steps leave room for results, and every limit holds.
func TestAnswerOfManySteps(t *testing.T) {
	var steps []string
	for i := range 100 {
		arguments := `{"long":2000}`
		if i%2 == 1 {
			arguments = fmt.Sprintf(`{"fail":%q}`, strings.Repeat("some reason ", 100))
		}
		steps = append(steps, fmt.Sprintf(`{"id":"step_%d","tool":"read","arguments":%s}`, i, arguments))
	}
	text := `{"steps":[` + strings.Join(steps, ",") + `]}`
	for _, tokens := range []int{10_000, 4000, 2000, 1000, 300, 100} {
		got, _ := answerOf(t, text, tokens, 0)
		var read struct {
			Steps   []struct{ ID, Status, Reason string }
			Untold  int            `json:"steps_left_out"`
			Outputs map[string]any `json:"outputs"`
			Left    []any          `json:"left_out"`
		}
		if err := json.Unmarshal([]byte(got), &read); err != nil {
			t.Fatal(err)
		}
		if len(read.Steps)+read.Untold != 100 {
			t.Errorf("%d tokens: %d steps are listed and %d are counted as omitted", tokens, len(read.Steps), read.Untold)
		}
		if used := len(got) / 4; used < tokens*3/4 && tokens > 2000 {
			t.Errorf("%d tokens: %d are used", tokens, used)
		}
		t.Logf("%d tokens: %d used, %d steps, %d outputs, %d left out", tokens, len(got)/4, len(read.Steps), len(read.Outputs), len(read.Left))
	}
}

// However small the budget, the answer tells of a failure and says where the rest is told: all
// reasons and writes if there is room.
func TestAnswerTellsFailures(t *testing.T) {
	why := strings.Repeat("the members there are a, b, c ", 12)
	var steps []string
	for i := range 30 {
		steps = append(steps, fmt.Sprintf(`{"id":"r%d","tool":"read","arguments":{"long":900}}`, i))
	}
	steps = append(steps, `{"id":"w","tool":"write","arguments":{"give":1}}`, `{"id":"s","tool":"read","depends_on":["bad"]}`,
		`{"id":"bad","tool":"read","arguments":{"fail":"`+why+`"}}`)
	p := parse(t, plan.Limits{}, `{"steps":[`+strings.Join(steps, ",")+`]}`)
	report := (&plan.Runner{Limits: unlimited, Call: newServers().call}).Run(t.Context(), p)
	skipped := `{"id":"s","status":"skipped","reason":"Skipped because dependency 'bad' failed"}`
	for _, c := range []struct {
		tokens int
		steps  string // beginning of the answer
		lost   bool
	}{
		{1125, `{"steps":[{"id":"bad","status":"failed","reason":"` + why + `"},{"id":"w","status":"ok"},` + skipped + `],"steps_left_out":30,`, false},
		{400, `{"steps":[{"id":"bad","status":"failed","reason":"` + why + `"},` + skipped + `],"steps_left_out":31,`, true},
		{250, `{"steps":[{"id":"bad","status":"failed","reason":"` + why[:147] + `…"},` + skipped + `],"steps_left_out":31,`, true},
		{15, `{"steps":[{"id":"bad","status":"failed"}],"steps_left_out":32,`, true},
	} {
		var kept []byte
		structured, _ := report.Answer(p, excerpt.Limit{Tokens: c.tokens}, func(all []byte) string {
			kept = all
			return "the-handle"
		})
		if got := string(structured); !strings.HasPrefix(got, c.steps) || strings.Contains(got, `"left_out":[{"pointer":"/$steps","what":"items","count":33,`) != c.lost {
			t.Errorf("%d tokens:\ngot  %.1000s\nwant %s", c.tokens, got, c.steps)
		}
		if got := jsonrpc.Text(jsonrpc.At(kept, "/$steps/32"), "reason"); got != why {
			t.Errorf("%d tokens: the stored reason is %q", c.tokens, got)
		}
	}
}

// The limits hold for results of any size, and most of the allowed space is used.
func TestAnswerFits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	used, allowed := 0, 0
	for range slice(100, 300) {
		var steps []string
		for i := range 1 + r.IntN(12) {
			steps = append(steps, fmt.Sprintf(`{"id":"s%d","tool":"read"}`, i))
		}
		p := parse(t, plan.Limits{}, `{"steps":[`+strings.Join(steps, ",")+`]}`)
		total := 0
		runner := &plan.Runner{Limits: within(plan.Limits{Parallel: 1}), Call: func(context.Context, plan.Call) plan.Result {
			row := `{"id":1,"name":"` + strings.Repeat("ä x", r.IntN(100)) + `","n":null}`
			result := "[" + strings.Repeat(row+",", int(r.ExpFloat64()*20)) + row + "]"
			total += len(result)
			return resultOf(result)
		}}
		report := runner.Run(t.Context(), p)
		tokens, chars := 400+r.IntN(4000), 0
		if r.IntN(2) == 0 {
			chars = 2000 + r.IntN(9000)
		}
		var kept []byte
		structured, _ := report.Answer(p, excerpt.Limit{Tokens: tokens, Chars: chars}, func(all []byte) string {
			kept = all
			return strings.Repeat("h", 26)
		})
		checkAnswer(t, structured, tokens, chars)
		checkLeft(t, report, structured, kept)
		if chars == 0 && total/4 > tokens {
			used += len(structured) / 4
			allowed += tokens
		}
	}
	if allowed == 0 || float64(used) < 0.75*float64(allowed) {
		t.Errorf("%d tokens are used of %d", used, allowed)
	}
	t.Logf("%d tokens are used of %d", used, allowed)
}

func TestFailed(t *testing.T) {
	for _, c := range []struct {
		name, steps string
		want        bool
	}{
		{"all", `{"id":"a","tool":"read"},{"id":"b","tool":"read","arguments":{"fail":"no"}}`, true},
		{"those that never ran count", `{"id":"a","tool":"read","arguments":{"fail":"no"}},{"id":"b","tool":"read","when":"$ref:a"}`, true},
		{"a default is a result", `{"id":"b","tool":"read","arguments":{"fail":"no"},"on_error":"default","default":0}`, false},
		{"not all", `{"id":"a","tool":"read","arguments":{"fail":"no"}},{"id":"b","tool":"read"}`, false},
		{"a condition that does not hold is none", `{"id":"z","tool":"read","arguments":{"give":0}},{"id":"b","tool":"read","when":"$ref:z"},{"id":"c","tool":"read","when":"$ref:b"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				report, _ := run(t, plan.Limits{}, `{"steps":[`+c.steps+`],"output_steps":["b"]}`)
				if got := report.Failed(); got != c.want {
					t.Errorf("got %t, want %t:\n%s", got, c.want, fates(report))
				}
			})
		})
	}
}

// Blocks of the output steps are returned unchanged, in order and with the id of their step
// (images had none).
func TestAnswerBlocks(t *testing.T) {
	block := func(id string) []byte { return []byte(`{"type":"image","data":"` + id + `"}`) }
	owner := func(id string) []byte { return []byte(`{"type":"text","text":"step ` + id + `:"}`) }
	p := parse(t, plan.Limits{}, `{"steps":[{"id":"a","tool":"read"},{"id":"b","tool":"read"},{"id":"c","tool":"read"},{"id":"d","tool":"read"}],"output_steps":["c","d","a"]}`)
	r := &plan.Runner{Limits: unlimited, Call: func(ctx context.Context, c plan.Call) plan.Result {
		if c.Step.ID == "d" {
			return resultOf("2")
		}
		return plan.Result{Value: plan.Value{JSON: []byte("1")}, Blocks: [][]byte{block(c.Step.ID)}}
	}}
	_, blocks := r.Run(t.Context(), p).Answer(p, excerpt.Limit{}, nil)
	if diff := cmp.Diff([][]byte{owner("c"), block("c"), owner("a"), block("a")}, blocks); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
