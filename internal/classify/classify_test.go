package classify_test

import (
	"encoding/json"
	"maps"
	"testing"

	"mcpschedd/internal/classify"
)

// What runs git in a folder that the call names obeys the configuration there.
func TestOfInAFolder(t *testing.T) {
	tests := []struct {
		args string
		want classify.Level
	}{
		{`{"command":"ls","cwd":"/x"}`, classify.Reads},
		{`{"command":"git log","cwd":"/x"}`, classify.Quiet},
		{`{"command":"git status","workdir":"/x"}`, classify.Quiet},
		{`{"command":"git -C a status","workdir":"/x"}`, classify.Quiet},
		{`{"command":"git add .","workdir":"/x"}`, classify.Unknown},
		{`{"command":"git status","cwd":"/x","workdir":"/y"}`, classify.Unknown},
		{`{"command":"git status","env":{"GIT_DIR":"x"}}`, classify.Unknown},
		{`{"command":"git status","timeout":9}`, classify.Quiet},
	}
	for _, tt := range tests {
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(tt.args), &args); err != nil {
			t.Fatal(err)
		}
		if got := classify.Shell.Of(maps.Keys(args), func(name string) []byte { return args[name] }); got != tt.want {
			t.Errorf("%s: got level %v, want %v", tt.args, got, tt.want)
		}
	}
}

// Beside a statement may stand what bounds it and where it runs, and nothing else.
func TestOfAStatement(t *testing.T) {
	tests := map[string]classify.Level{
		`{"sql":"SELECT 1"}`:                              classify.Reads,
		`{"query":"SELECT 1","project_id":"abc"}`:         classify.Reads,
		`{"query":"SELECT 1","limit":5,"database":"d"}`:   classify.Reads,
		`{"query":"DELETE FROM t","project_id":"abc"}`:    classify.Unknown,
		`{"query":"SELECT 1","statement":"DROP TABLE t"}`: classify.Unknown,
		`{"query":"SELECT 1","before":"DROP TABLE t"}`:    classify.Unknown,
		`{"project_id":"abc"}`:                            classify.Unknown,
	}
	for text, want := range tests {
		var args map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Fatal(err)
		}
		if got := classify.SQL.Of(maps.Keys(args), func(name string) []byte { return args[name] }); got != want {
			t.Errorf("%s: got level %v, want %v", text, got, want)
		}
	}
}
