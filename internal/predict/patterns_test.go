package predict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// The patterns of calls in recordings of a coding client, with the provider's tables as they come
// with the program.

var client = valuemodel.Upstream{Name: "client", Provider: "claude-code"}

// clientPlay begins a session of a coding client, with rules of the operator.
func clientPlay(t testing.TB, rules ...valuemodel.Rule) *player {
	o := resolve(t, client, rules, "Read", "", "Grep", "", "Glob", "", "Edit", "", "Bash", "",
		"WebSearch", "", "WebFetch", "", "TaskList", "", "TaskUpdate", "", "TodoWrite", "", "ToolSearch", "")
	return play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
}

// again begins the next session with the same model.
func (p *player) again() *player {
	p.s.End()
	next := play(p.f)
	next.now = p.now.Add(time.Hour)
	return next
}

func chosen(candidates []predict.Candidate, o enrich.Options) []string {
	picked, _ := choose(candidates, anything, o)
	var out []string
	for _, g := range picked {
		out = append(out, g.Key.Tool+" "+g.Key.Arguments)
	}
	return out
}

// 1. Polling of a pipeline. A volatile tool is never prefetched, as the result would be older than
// the one that the client polls for. fail_fast_after_n limits polling: after that many identical
// results, the next one comes from the cache.
func TestPattern1Polling(t *testing.T) {
	o := resolve(t, valuemodel.Upstream{Name: "hub", Provider: "gitlab"}, nil, "get_pipeline", "")
	m := o["get_pipeline"].Model
	if m.FailFastAfter != 3 {
		t.Errorf("fail_fast_after_n: got %d, want 3", m.FailFastAfter)
	}
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
	for range 20 {
		p.call("get_pipeline", `{"pipeline_id":9,"project_id":"p"}`, `{"status":"running"}`)
		if got := chosen(p.candidates(), budget); got != nil {
			t.Fatalf("chosen: %v, want nothing", got)
		}
	}
}

// 2. Files that are read again. The store answers the second read, after it has checked the file.
// A stored result only declines the candidate for the same call: other files of the same tool
// remain candidates.
func TestPattern2ReadAgain(t *testing.T) {
	p := clientPlay(t)
	for i := range 8 {
		p = p.again()
		p.call("Read", `{"file_path":"/a/go.mod"}`, "module a")
		p.candidates()
		p.call("Read", `{"file_path":"/a/main.go"}`, fmt.Sprintf("package main // %d", i))
		p.candidates()
		p.call("Read", `{"file_path":"/a/go.mod"}`, "module a")
	}
	p = p.again()
	p.call("Read", `{"file_path":"/a/go.mod"}`, "module a")
	candidates := p.candidates()
	picked, _ := choose(candidates, func(g *predict.Candidate) around {
		w := anything(g)
		if g.Key.Arguments == `{"file_path":"/a/go.mod"}` {
			w.Reason = enrich.Stored
		}
		return w
	}, budget)
	if len(picked) != 1 || picked[0].Key.Arguments != `{"file_path":"/a/main.go"}` {
		t.Errorf("chosen: %+v of %+v, want main.go alone", picked, candidates)
	}
}

// 3. Grep, then Read of the files with the first matches. The provider's table gives no arguments
// for Read, so these are learned, by rank.
func TestPattern3GrepThenRead(t *testing.T) {
	p := clientPlay(t)
	matches := func(i int) string {
		return fmt.Sprintf("src/a%d.go:12:func f() {\nsrc/b%d.go:3:f()\nsrc/c%d.go:9:f()", i, i, i)
	}
	for i := range 12 {
		p = p.again()
		p.call("Grep", fmt.Sprintf(`{"pattern":"f%d"}`, i), matches(i))
		p.candidates()
		p.call("Read", fmt.Sprintf(`{"file_path":"src/a%d.go"}`, i), "x")
		p.candidates()
		p.call("Read", fmt.Sprintf(`{"file_path":"src/b%d.go"}`, i), "x")
		p.candidates()
	}
	p = p.again()
	p.call("Grep", `{"pattern":"g"}`, matches(99))
	got := chosen(p.candidates(), budget)
	if len(got) == 0 || len(got) > 3 {
		t.Fatalf("chosen: %v, want one to three files", got)
	}
	if want := `Read {"file_path":"src/a99.go"}`; !strings.Contains(strings.Join(got, "\n"), want) {
		t.Errorf("chosen: %v, want the first match among them", got)
	}
}

// 4. Glob, then Read, from lines that only have a path.
func TestPattern4GlobThenRead(t *testing.T) {
	p := clientPlay(t)
	for i := range 12 {
		p = p.again()
		p.call("Glob", fmt.Sprintf(`{"pattern":"d%d/**"}`, i), fmt.Sprintf("/r/d%d/one.md\n/r/d%d/two.md\n/r/d%d/three.md", i, i, i))
		p.candidates()
		p.call("Read", fmt.Sprintf(`{"file_path":"/r/d%d/one.md"}`, i), "x")
		p.candidates()
	}
	p = p.again()
	p.call("Glob", `{"pattern":"d99/**"}`, "/r/d99/one.md\n/r/d99/two.md\n/r/d99/three.md")
	got := chosen(p.candidates(), budget)
	if len(got) == 0 || got[0] != `Read {"file_path":"/r/d99/one.md"}` {
		t.Errorf("chosen: %v, want the first file first", got)
	}
}

// 5. A search, then a page. A request discloses to the page's server that it is of interest, and
// its URL comes from a result, so it is prefetched only if the operator allows it.
func TestPattern5SearchThenFetch(t *testing.T) {
	search := valuemodel.Rule{Pattern: "WebSearch", Layer: valuemodel.Layer{
		FollowUps: []valuemodel.FollowUp{follow(t, "WebFetch", 0.6, "url", "$result.results[*].url", "prompt", "$args.query")},
	}}
	opened := valuemodel.Rule{Pattern: "WebFetch", Layer: valuemodel.Layer{Disclosure: valuemodel.SameService}}
	const page = `{"prompt":"go","url":"https://go.dev/"}`
	for _, test := range []struct {
		name  string
		rules []valuemodel.Rule
		want  enrich.Reason
	}{
		{"as it comes", []valuemodel.Rule{search}, enrich.Disclosure},
		{"the operator opened it", []valuemodel.Rule{search, opened}, ""},
	} {
		p := clientPlay(t, test.rules...)
		p.call("WebSearch", `{"query":"go"}`, `{"results":[{"url":"https://go.dev/"},{"url":"https://pkg.go.dev/"}]}`)
		if g := find(p.candidates(), "WebFetch", page); g.Key.Tool == "" || g.Reason != test.want {
			t.Errorf("%s: got %+v, want the reason %q", test.name, g, test.want)
		}
	}
}

// 8. Searches that fail repeatedly. Nothing follows a failed call. An empty result that was
// returned twice is then served from the cache, as fail_fast_after_n is 2.
func TestPattern8FailedSearches(t *testing.T) {
	tools := valuemodel.Rule{Pattern: "ToolSearch", Layer: valuemodel.Layer{
		FollowUps: []valuemodel.FollowUp{follow(t, "Read", 0.9, "file_path", "$args.query")},
	}}
	p := clientPlay(t, tools)
	if m := resolve(t, client, nil, "ToolSearch", "")["ToolSearch"].Model; m.FailFastAfter != 2 {
		t.Errorf("fail_fast_after_n: got %d, want 2", m.FailFastAfter)
	}
	p.call("ToolSearch", `{"query":"a"}`, "error: nothing")
	if got := p.candidates(); len(got) != 0 {
		t.Errorf("after a failure: got %+v, want nothing", got)
	}
	p.call("ToolSearch", `{"query":"b"}`, "found")
	if got := chosen(p.candidates(), budget); len(got) != 1 || got[0] != `Read {"file_path":"b"}` {
		t.Errorf("after a success: chosen %v, want what follows", got)
	}
}

// The values of a label in text are a list of their own, whatever they look like.
func TestLabelsInText(t *testing.T) {
	for line, id := range map[string]string{"Message ID: %d": "%d", "1. ID: %d": "%d", "- **ID**: %d": "%d", "**Message ID:** `%d`": "%d", "Glob: *.%d.*": "*.%d.*"} {
		t.Run(line, func(t *testing.T) {
			m := learner(learning{Target: reads})
			mails := func(i int) string {
				return fmt.Sprintf("Found 2 messages\n\nFrom: Ann\n"+line+"\n\nFrom: Bob\n"+line+"\n", 100+2*i, 101+2*i)
			}
			for i := range 12 {
				p := begin(t, m)
				p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), mails(i))
				p.s.Candidates(p.now)
				p.call("get", fmt.Sprintf(`{"id":"`+id+`"}`, 100+2*i), "x")
				p.s.End()
			}
			p := begin(t, m)
			p.call("list", `{"n":99}`, mails(200))
			first, second := p.find("get", fmt.Sprintf(`{"id":"`+id+`"}`, 500)).P, p.find("get", fmt.Sprintf(`{"id":"`+id+`"}`, 501)).P
			if first < 0.5 || second > first/2 {
				t.Errorf("got %.2f for the first message and %.2f for the second one", first, second)
			}
			if all := held(state(t, m)); strings.Contains(all, "Message ID") {
				t.Error("the state has the label")
			}
		})
	}
}
