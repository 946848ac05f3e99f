package predict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Each case has one follow-up of list, and the calls that it derives from the arguments and the
// result of list.
func TestFollowUps(t *testing.T) {
	tests := []struct {
		name      string
		args      []any // of the follow-up
		arguments string
		text      string
		want      []string // expected calls, in order of rank
	}{
		{
			name: "a field of each element, beside an argument",
			args: []any{"owner", "$args.owner", "number", "$result.items[*].number"}, arguments: `{"owner":"a"}`,
			text: `{"items":[{"number":7},{"number":11},{"number":12}]}`,
			want: []string{`{"number":7,"owner":"a"}`, `{"number":11,"owner":"a"}`, `{"number":12,"owner":"a"}`},
		},
		{
			name: "JSON between a heading and a remark",
			args: []any{"number", "$result[*].number"},
			text: "Issues:\n[{\"number\":7},{\"number\":8}]\n\nPage 1 of 2",
			want: []string{`{"number":7}`, `{"number":8}`},
		},
		{
			name: "values of one element stay together",
			args: []any{"owner", "$result.items[*].repo.owner", "number", "$result.items[*].number"},
			text: `{"items":[{"number":7,"repo":{"owner":"a"}},{"number":8,"repo":{"owner":"b"}}]}`,
			want: []string{`{"number":7,"owner":"a"}`, `{"number":8,"owner":"b"}`},
		},
		{
			name: "an element without one of its values makes no call, and borrows no other's",
			args: []any{"owner", "$result.items[*].owner", "number", "$result.items[*].number"},
			text: `{"items":[{"number":7,"owner":"a"},{"number":8},{"owner":"c"}]}`,
			want: []string{`{"number":7,"owner":"a"}`},
		},
		{
			name: "the only owner there is belongs to another element",
			args: []any{"owner", "$result.items[*].owner", "number", "$result.items[*].number"},
			text: `{"items":[{"owner":"a"},{"number":8}]}`,
		},
		{
			name: "a list inside each element, with the element's own value",
			args: []any{"label", "$result[*].labels[*].name", "number", "$result[*].number"},
			text: `[{"number":1,"labels":[{"name":"x"},{"name":"y"}]},{"number":2,"labels":[{"name":"z"}]}]`,
			want: []string{`{"label":"x","number":1}`, `{"label":"y","number":1}`, `{"label":"z","number":2}`},
		},
		{
			name: "independent lists: the first drives, the other has one value",
			args: []any{"a", "$result.as[*]", "b", "$result.bs[*]"},
			text: `{"as":[1,2],"bs":["x"]}`,
			want: []string{`{"a":1,"b":"x"}`, `{"a":2,"b":"x"}`},
		},
		{
			name: "independent lists: the other has several, which is not a choice to make",
			args: []any{"a", "$result.as[*]", "b", "$result.bs[*]"},
			text: `{"as":[1,2],"bs":["x","y"]}`,
		},
		{
			name: "independent lists: several times the same is one thing",
			args: []any{"a", "$result.as[*]", "b", "$result.bs[*]"},
			text: `{"as":[1],"bs":["x","x"]}`, want: []string{`{"a":1,"b":"x"}`},
		},
		{
			name: "a fixed place beside a list",
			args: []any{"owner", "$result.items[0].owner", "number", "$result.items[*].number"},
			text: `{"items":[{"number":7,"owner":"a"},{"number":8,"owner":"b"}]}`,
			want: []string{`{"number":7,"owner":"a"}`, `{"number":8,"owner":"a"}`},
		},
		{
			name: "a name however deep",
			args: []any{"iid", "$result..iid"},
			text: `{"a":{"iid":1,"x":[{"iid":2},{"y":{"iid":3}}]}}`,
			want: []string{`{"iid":1}`, `{"iid":2}`, `{"iid":3}`},
		},
		{
			name: "two names however deep, of the same element",
			args: []any{"iid", "$result..iid", "project", "$result..project_id"},
			text: `{"data":[{"iid":1,"project_id":5},{"iid":2,"at":{"project_id":6}},{"iid":3}]}`,
			want: []string{`{"iid":1,"project":5}`, `{"iid":2,"project":6}`},
		},
		{
			name: "two names however deep, of the same member of an object",
			args: []any{"iid", "$result..iid", "project", "$result..project_id"},
			text: `{"mr":{"iid":1,"project_id":5},"issue":{"iid":2,"project_id":6}}`,
			want: []string{`{"iid":1,"project":5}`, `{"iid":2,"project":6}`},
		},
		{
			name: "what is said once, outside the list, is nearest to all of it",
			args: []any{"iid", "$result.items[*].iid", "project", "$result..project_id"},
			text: `{"project_id":9,"items":[{"iid":1},{"iid":2,"project_id":3}]}`,
			want: []string{`{"iid":1,"project":9}`, `{"iid":2,"project":3}`},
		},
		{
			name: "and also if it is said behind the list",
			args: []any{"iid", "$result.items[*].iid", "project", "$result..project_id"},
			text: `{"items":[{"iid":1},{"iid":2,"project_id":3}],"project_id":9}`,
			want: []string{`{"iid":1,"project":9}`, `{"iid":2,"project":3}`},
		},
		{
			name: "a list drives what is found anywhere, whatever their names",
			args: []any{"a_project", "$result..project_id", "iid", "$result.items[*].iid"},
			text: `{"project_id":9,"items":[{"iid":1},{"iid":2,"project_id":3}]}`,
			want: []string{`{"a_project":9,"iid":1}`, `{"a_project":3,"iid":2}`},
		},
		{
			name: "numbers as written", args: []any{"n", "$result.n"},
			text: `{"n":9007199254740993}`, want: []string{`{"n":9007199254740993}`},
		},
		{
			name: "a number with places stays one", args: []any{"n", "$result.n"},
			text: `{"n":1.50e3}`, want: []string{`{"n":1.50e3}`},
		},
		{
			name: "constants", args: []any{"n", "$result.n", "state", "open", "deep", true, "price", "$5", "word", "$$args"},
			text: `{"n":1}`, want: []string{`{"deep":true,"n":1,"price":"$5","state":"open","word":"$args"}`},
		},
		{
			name: "arguments alone need no answer", args: []any{"id", "$args.id"}, arguments: `{"id":"x"}`,
			text: `all is well`, want: []string{`{"id":"x"}`},
		},
		{
			name: "an element of the arguments", args: []any{"path", "$args.paths[*]"}, arguments: `{"paths":["a","b"]}`,
			text: `ok`, want: []string{`{"path":"a"}`, `{"path":"b"}`},
		},
		{
			name: "lists of arguments and answer are independent", args: []any{"a", "$args.as[*]", "b", "$result[*]"}, arguments: `{"as":[1,2]}`,
			text: `["x"]`, want: []string{`{"a":1,"b":"x"}`, `{"a":2,"b":"x"}`},
		},
		{
			name: "one value, and a list that goes on further than is looked",
			args: []any{"a", "$result.as[*]", "b", "$result.bs[*]"},
			text: `{"as":[1,2],"bs":["x",` + strings.Repeat("null,", 5000) + `"y"]}`,
		},
		{
			name: "of arguments and answer there are no common elements", args: []any{"a", "$args.as[*]", "b", "$result.bs[*]"}, arguments: `{"as":[1,2]}`,
			text: `{"bs":["x"]}`, want: []string{`{"a":1,"b":"x"}`, `{"a":2,"b":"x"}`},
		},
		{
			name: "the same value twice is one call", args: []any{"n", "$result[*]"},
			text: `[1,1,2]`, want: []string{`{"n":1}`, `{"n":2}`},
		},
		{
			name: "three at most, unless it says so", args: []any{"n", "$result[*]"},
			text: `[1,2,3,4,5,6,7,8,9,10]`, want: []string{`{"n":1}`, `{"n":2}`, `{"n":3}`},
		},
		{name: "a missing argument", args: []any{"n", "$args.n"}, arguments: `{"m":1}`, text: `{}`},
		{name: "null is nothing", args: []any{"n", "$result.n"}, text: `{"n":null}`},
		{name: "an empty text names nothing", args: []any{"n", "$result.n"}, text: `{"n":""}`},
		{name: "no such element", args: []any{"n", "$result.items[3]"}, text: `{"items":[1]}`},
		{name: "an object is no list", args: []any{"n", "$result[*]"}, text: `{"n":1}`},
		{name: "a list has no names", args: []any{"n", "$result.n"}, text: `[{"n":1}]`},
		{name: "a text that is no JSON", args: []any{"n", "$result..n"}, text: `n is 7`},
		{name: "JSON with something behind it", args: []any{"n", "$result.n"}, text: `{"n":1} and more`},
		{name: "a lone surrogate is two things to two servers", args: []any{"n", "$result.n"}, text: `{"n":"\ud800"}`},
		{name: "the same name in other letters is two things to two servers", args: []any{"n", "$result"}, text: `{"a":1,"A":2}`},
		{
			name: "an escape is written one way", args: []any{"n", "$result.n"},
			text: `{"n":"\u0041\/"}`, want: []string{`{"n":"A/"}`},
		},
		{name: "values too long together", args: []any{"a", "$result", "b", "$result", "c", "$result"}, text: `"` + strings.Repeat("x", 7<<10) + `"`},
		{name: "a value too long to be an argument", args: []any{"n", "$result.n"}, text: `{"n":"` + strings.Repeat("x", 9<<10) + `"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.4, test.args...)), reading("get")}, "list", "", "get", "")
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", test.arguments, test.text)
			if diff := cmp.Diff(test.want, ranked(made(p.candidates(), "get"), test.want)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

// ranked sorts the members of got that are in want into the order of want, as equally likely
// candidates have no order.
func ranked(got, want []string) []string {
	var out []string
	for _, w := range want {
		for i, g := range got {
			if g == w {
				out = append(out, g)
				got = append(got[:i:i], got[i+1:]...)
				break
			}
		}
	}
	return append(out, got...)
}

// A follow-up reads the structured content of a result, not the text beside it.
func TestFollowUpReadsStructuredContent(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.4, "n", "$result.n")), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.ask("list", "{}")
	p.answer(predict.Result{Text: []byte(`{"n":1}`), Structured: []byte(`{"n":2}`)})
	if got, want := made(p.candidates(), "get"), []string{`{"n":2}`}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The maximum counts all calls derived from one result, including those that the client has made.
func TestFollowUpMaximum(t *testing.T) {
	list := follow(t, "get", 0.9, "n", "$result[*]")
	list.Max = 2
	o := resolve(t, hub, []valuemodel.Rule{reading("list", list), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", "{}", `[1,2,3,4]`)
	if got, want := made(p.candidates(), "get"), []string{`{"n":1}`, `{"n":2}`}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	p.call("get", `{"n":1}`, `x`)
	p.call("get", `{"n":2}`, `x`)
	if got := made(p.candidates(), "get"); got != nil {
		t.Errorf("after the first two calls: got %v, want none", got)
	}
}

// A value that occurs twice in a list has the rank of its first occurrence.
func TestFollowUpRanks(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result[*]")), reading("get")}, "list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool}))
	p.call("list", "{}", `[5,5,6,5,7]`)
	candidates := p.candidates()
	for rank, n := range []int{5, 6, 7} {
		if g := find(candidates, "get", fmt.Sprintf(`{"n":%d}`, n)); g.Key.Tool == "" || g.Why.Rank != rank {
			t.Errorf("%d: got %+v, want the rank %d", n, g, rank)
		}
	}
}

// Two follow-ups between the same tools have separate labels and probabilities.
func TestFollowUpEdges(t *testing.T) {
	o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.9, "n", "$result.good"), follow(t, "get", 0.9, "n", "$result.bad")), reading("get")},
		"list", "", "get", "")
	p := play(predict.New(predict.Options{Tool: o.tool, Learn: true}))
	for i := range 12 {
		p.call("list", "{}", fmt.Sprintf(`{"good":"g%d","bad":"b%d"}`, i, i))
		p.candidates()
		p.call("get", fmt.Sprintf(`{"n":"g%d"}`, i), "x")
		p.candidates()
		p.s.Invalidate(nil)
	}
	p.call("list", "{}", `{"good":"g99","bad":"b99"}`)
	candidates := p.candidates()
	good, bad := find(candidates, "get", `{"n":"g99"}`), find(candidates, "get", `{"n":"b99"}`)
	if good.Why.Edge == bad.Why.Edge || good.P < 0.7 || bad.P > 0.4 {
		t.Errorf("got %q at %v and %q at %v, want two edges, one likely and one not", good.Why.Edge, good.P, bad.Why.Edge, bad.P)
	}
}

// A follow-up without arguments is prefetched only if the schema of its tool allows a call without
// arguments.
func TestFollowUpWithoutArguments(t *testing.T) {
	tests := []struct {
		name, schema string
		want         []string
	}{
		{"nothing is known of its arguments", "", nil},
		{"it wants one", `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`, nil},
		{"it takes none", `{"type":"object","properties":{}}`, []string{"{}"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := resolve(t, hub, []valuemodel.Rule{reading("list", follow(t, "get", 0.4)), reading("get")}, "list", "", "get", test.schema)
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", "{}", `{}`)
			if got := made(p.candidates(), "get"); !cmp.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// The schema decides whether a number is converted to a text or a text to a number.
func TestFollowUpTypes(t *testing.T) {
	const wants = `{"type":"object","properties":{"iid":{"type":"%s"},"project":{"type":"%s"},"state":{"type":"string"}},"required":["iid","project"]}`
	tests := []struct {
		name, iid, project string
		text               string
		want               string
	}{
		{"as they are", "integer", "string", `{"iid":7,"project":"p"}`, `{"iid":7,"project":"p","state":"1"}`},
		{"a number where a text is wanted", "string", "string", `{"iid":7,"project":"p"}`, `{"iid":"7","project":"p","state":"1"}`},
		{"a text where a number is wanted", "integer", "string", `{"iid":"7","project":"p"}`, `{"iid":7,"project":"p","state":"1"}`},
		{"both at once", "string", "integer", `{"iid":7,"project":"12"}`, `{"iid":"7","project":12,"state":"1"}`},
		{"a large number keeps its digits", "string", "string", `{"iid":12345678901234567890,"project":"p"}`, `{"iid":"12345678901234567890","project":"p","state":"1"}`},
		{"a text that is no number", "integer", "string", `{"iid":"seven","project":"p"}`, ""},
		{"not what looks like one", "integer", "string", `{"iid":"007","project":"p"}`, ""},

		{"an object is neither", "integer", "string", `{"iid":{"a":1},"project":"p"}`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			next := follow(t, "get", 0.4, "iid", "$result.iid", "project", "$result.project", "state", "1")
			o := resolve(t, hub, []valuemodel.Rule{reading("list", next), reading("get")},
				"list", "", "get", fmt.Sprintf(wants, test.iid, test.project))
			p := play(predict.New(predict.Options{Tool: o.tool}))
			p.call("list", "{}", test.text)
			candidates := p.candidates()
			if len(candidates) != 1 {
				t.Fatalf("got %d candidates, want one: %+v", len(candidates), candidates)
			}
			switch g := candidates[0]; {
			case test.want == "" && g.Reason != "schema":
				t.Errorf("got %s with the reason %q, want the reason schema", g.Key.Arguments, g.Reason)
			case test.want != "" && (g.Key.Arguments != test.want || g.Reason != ""):
				t.Errorf("got %s with the reason %q, want %s", g.Key.Arguments, g.Reason, test.want)
			}
		})
	}
}
