package classify_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/classify"
)

// A git command in a directory that the call names depends on the configuration there.
func TestOfInAFolder(t *testing.T) {
	quiet := func(folders ...string) classify.Effect {
		return classify.Effect{Level: classify.Quiet, Folders: folders}
	}
	tests := []struct {
		args string
		want classify.Effect
	}{
		{`{"command":"ls","cwd":"/x"}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"ls","cwd":"/"}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"ls","cwd":null}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"cat tty","cwd":"/dev"}`, classify.Effect{}},
		{`{"command":"cat kmsg","cwd":"/x/../proc/"}`, classify.Effect{}},
		{`{"command":"cat tty","cwd":"/dev\ud800"}`, classify.Effect{}},
		// A server may run cd with it in the same line.
		{`{"command":"ls","cwd":"/x; rm y"}`, classify.Effect{}},
		{`{"command":"ls","workdir":"$(touch y)"}`, classify.Effect{}},
		{`{"command":"ls","cwd":"/x\nrm y"}`, classify.Effect{}},
		{`{"command":"ls","cwd":"-P"}`, classify.Effect{}},
		{`{"command":"ls","cwd":" /dev"}`, classify.Effect{}},
		{`{"command":"cat tty","cwd":"/d\\ev"}`, classify.Effect{}},
		{`{"command":"echo '\"; rm y'","cwd":"C:\\x\\"}`, classify.Effect{}}, // a quote after it is part of the path
		{`{"command":"ls","cwd":""}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"ls","cwd":"/home/jörg/My Files/a-b_c.d+e@2,=:%~1"}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"ls","cwd":"C:\\Users\\Jo\u0308rg\\My Files"}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"cat digits.txt .gitignore","cwd":"/x"}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"ls && git log","cwd":"/x"}`, quiet("/x")},
		{`{"command":"git log","cwd":"/x"}`, quiet("/x")},
		{`{"command":"git status","workdir":"/x"}`, quiet("/x")},
		{`{"command":"git -C a status","workdir":"/x"}`, quiet("/x/a")},
		{`{"command":"git -C /a status","workdir":"/x"}`, quiet("/a")},
		{`{"command":"git status","cwd":"~/x"}`, classify.Effect{}},
		{`{"command":"git status","cwd":7}`, classify.Effect{}},
		{`{"command":"git status","cwd":"/x","workdir":"/y"}`, classify.Effect{}},
		{`{"command":"git status","env":{"GIT_DIR":"x"}}`, classify.Effect{}},
		{`{"command":"git status","timeout":9}`, quiet("")},
		{`{"command":"ls","description":"what is here; now"}`, classify.Effect{Level: classify.Reads}},
		{`{"command":"ls","timeout":"9; rm x"}`, classify.Effect{}},
		{`{"command":"ls","timeout":"3s"}`, classify.Effect{Level: classify.Reads}},
	}
	for _, tt := range tests {
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(tt.args), &args); err != nil {
			t.Fatal(err)
		}
		got := classify.Shell.Of(maps.Keys(args), func(name string) []byte { return args[name] })
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
}

// With a statement, only known arguments may be given: limits, values, and where it runs.
func TestOfAStatement(t *testing.T) {
	tests := map[string]classify.Level{
		`{"sql":"SELECT 1"}`:                                classify.Reads,
		`{"query":"SELECT 1","project_id":"abc"}`:           classify.Reads,
		`{"query":"SELECT 1","limit":5,"database":"d"}`:     classify.Reads,
		`{"query":"SELECT 1","schema":"my-db.a_b"}`:         classify.Reads,
		`{"query":"SELECT 1","offset":5,"page_size":10}`:    classify.Reads,
		`{"query":"SELECT $1","params":[1, "a_b",null]}`:    classify.Reads,
		`{"query":"SELECT ?","parameters":[ ]}`:             classify.Reads,
		`{"query":"SELECT ?","params":["a","; DROP x"]}`:    classify.Unknown,
		`{"query":"SELECT ?","params":["a","b'"]}`:          classify.Unknown,
		`{"query":"SELECT ?","params":[["--"]]}`:            classify.Unknown,
		`{"query":"SELECT ?","params":{"a":1}}`:             classify.Unknown,
		`{"query":"SELECT 1","limit":"5; DROP TABLE t"}`:    classify.Unknown,
		`{"query":"SELECT 1","schema":"a;DROP/**/TABLE"}`:   classify.Unknown,
		`{"query":"SELECT 1","db":"\\o /x"}`:                classify.Unknown,
		`{"query":"SELECT 1","schema":"x\\gexec"}`:          classify.Unknown,
		`{"query":"SELECT 1","db":":memory:"}`:              classify.Reads,
		`{"query":"SELECT 1","db":"/srv/a-b/x.db"}`:         classify.Reads,
		`{"query":"SELECT 1","db":"https://h/x.db"}`:        classify.Unknown,
		`{"query":"SELECT 1","database":"//h/x.db"}`:        classify.Unknown,
		`{"query":"SELECT 1","db":"x DROP TABLE t"}`:        classify.Unknown,
		`{"query":"SELECT 1","limit":"5 FOR UPDATE"}`:       classify.Unknown,
		`{"query":"SELECT 1","schema":"aʼb"}`:               classify.Unknown,
		`{"query":"SELECT 1","project_id":"example.com:p"}`: classify.Reads,
		`{"query":"SELECT 1","schema":"a--b"}`:              classify.Unknown,
		`{"query":"SELECT 1","db":"-ox"}`:                   classify.Unknown,
		`{"query":"SELECT 1","schema":"f(1)"}`:              classify.Unknown,
		`{"query":"SELECT 1","schema":"a*b"}`:               classify.Unknown,
		`{"query":"SELECT 1","db":"a\"b"}`:                  classify.Unknown,
		`{"query":"SELECT 1","db":"a\u0027b"}`:              classify.Unknown,
		`{"query":"SELECT 1","db":"a\nb"}`:                  classify.Unknown,
		`{"query":"DELETE FROM t","project_id":"abc"}`:      classify.Unknown,
		`{"query":"SELECT 1","statement":"DROP TABLE t"}`:   classify.Unknown,
		`{"query":"SELECT 1","before":"DROP TABLE t"}`:      classify.Unknown,
		`{"project_id":"abc"}`:                              classify.Unknown,
	}
	for text, want := range tests {
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Fatal(err)
		}
		if got := classify.SQL.Of(maps.Keys(args), func(name string) []byte { return args[name] }); got.Level != want {
			t.Errorf("%s: got level %v, want %v", text, got.Level, want)
		}
	}
}
