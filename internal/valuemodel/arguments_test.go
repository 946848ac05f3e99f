package valuemodel_test

import (
	"testing"

	"mcpschedd/internal/valuemodel"
)

func TestClassOfACall(t *testing.T) {
	layer := func(c valuemodel.Class, k valuemodel.Classify) valuemodel.Layer {
		return valuemodel.Layer{Class: c, Classify: k}
	}
	shell := []valuemodel.Rule{rule("t", "c:1", layer("", valuemodel.Shell))}
	sql := []valuemodel.Rule{rule("t", "c:1", layer("", valuemodel.SQL))}
	const reads, unknown = valuemodel.ReadOnly, valuemodel.Indeterminate
	tests := []struct {
		name  string
		rules []valuemodel.Rule
		args  string
		want  valuemodel.Class
	}{
		{"a command that reads", shell, `{"command":"ls"}`, reads},
		{"by its short name", shell, `{"cmd":"ls"}`, reads},
		{"a command that writes", shell, `{"command":"rm x"}`, unknown},
		{"no arguments", shell, ``, unknown},
		{"no command", shell, `{"description":"ls"}`, unknown},
		{"two commands", shell, `{"command":"ls","cmd":"ls"}`, unknown},
		{"two commands, one no text", shell, `{"command":"ls","script":null}`, unknown},
		{"a list", shell, `{"command":["ls"]}`, unknown},
		{"an environment", shell, `{"command":"ls","env":{"LD_PRELOAD":"x"}}`, unknown},
		{"another shell", shell, `{"command":"ls","shell":"/tmp/sh"}`, unknown},
		{"in the background", shell, `{"command":"ls","run_in_background":true}`, unknown},
		{"not in the background", shell, `{"command":"ls","run_in_background":false,"timeout":9}`, reads},
		{"a flag that deletes", shell, `{"command":"find .","flags":["-delete"]}`, unknown},
		{"a command before it", shell, `{"command":"ls","pre_command":"rm x"}`, unknown},
		{"variables", shell, `{"command":"ls","env_vars":{"LD_PRELOAD":"x"}}`, unknown},
		{"more arguments", shell, `{"command":"find .","extra_args":"-delete"}`, unknown},
		{"a file to write", shell, `{"command":"ls","output_file":"x"}`, unknown},
		{"as another user", shell, `{"command":"ls","sudo":true}`, unknown},
		{"with an input", shell, `{"command":"cat a","stdin_file":"x"}`, unknown},
		{"a second command in other letters", shell, `{"cmd":"ls","Command":"rm"}`, unknown},
		{"in other letters alone", shell, `{"Command":"ls"}`, unknown},
		{"a name there is not", shell, `{"command":"ls","":1}`, unknown},
		{"in a folder, with a bound", shell, `{"command":"ls","Cwd":"/x","TIMEOUT_ms":9,"description":"see"}`, reads},
		{"git in a folder", shell, `{"command":"git log","workdir":"/x"}`, unknown},
		{"git where the server is", shell, `{"command":"git log","timeout":9}`, reads},
		{"half a surrogate", shell, `{"command":"ls \ud800"}`, unknown},
		{"a statement that reads", sql, `{"sql":"SELECT 1"}`, reads},
		{"by its long name", sql, `{"query":"SELECT 1"}`, reads},
		{"a statement that writes", sql, `{"statement":"DELETE FROM t"}`, unknown},
		{"two statements", sql, `{"sql":"SELECT 1","query":"SELECT 1"}`, unknown},
		{"a statement that is analysed", sql, `{"sql":"SELECT 1","analyze":true}`, unknown},
		{"not analysed", sql, `{"sql":"SELECT 1","analyze":false}`, reads},
		{"a statement after it", sql, `{"sql":"SELECT 1","post_sql":"DELETE FROM t"}`, unknown},
		{"a table to write", sql, `{"sql":"SELECT 1","destination_table":"t"}`, unknown},
		{"with leave to write", sql, `{"sql":"SELECT 1","write":true}`, unknown},
		{"that commits", sql, `{"sql":"SELECT 1","commit":true}`, unknown},
		{"so many rows of a database", sql, `{"sql":"SELECT 1","max_rows":5,"Database":"d","format":"csv"}`, reads},
		{"in a folder, which no statement is", sql, `{"sql":"SELECT 1","cwd":"/x"}`, unknown},
		{"a shell command as a statement", sql, `{"command":"ls"}`, unknown},
		{"said to read", []valuemodel.Rule{rule("t", "c:1", layer(reads, valuemodel.Shell))}, `{"command":"rm x"}`, unknown},
		{"said to write, by a rule above", append(shell, rule("up/t", "c:2", layer(valuemodel.MutatesLocal, ""))), `{"command":"ls"}`, valuemodel.MutatesLocal},
		{"said to write by a glob, told apart by name", []valuemodel.Rule{rule("up/*", "c:1", layer(valuemodel.MutatesLocal, "")), rule("up/t", "c:2", layer("", valuemodel.Shell))}, `{"command":"ls"}`, reads},
		{"told apart by a glob, said to read by name", []valuemodel.Rule{rule("up/*", "c:1", layer("", valuemodel.Shell)), rule("up/t", "c:2", layer(reads, ""))}, `{"command":"rm x"}`, reads},
		{"a kind there is not", []valuemodel.Rule{rule("t", "c:1", layer("", "perl"))}, `{"command":"ls"}`, unknown},
		{"nothing to tell by", []valuemodel.Rule{rule("t", "c:1", layer(valuemodel.Pure, ""))}, `{"command":"rm"}`, valuemodel.Pure},
	}
	for _, tt := range tests {
		m := resolve(t, valuemodel.Upstream{Name: "up"}, "t", valuemodel.Hints{}, tt.rules...)
		if got := m.ClassOf(arguments(t, tt.args), memberNames(t, tt.args)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The operator's class applies to all calls of a tool, and so does the operator's classify.
func TestWhoTellsCallsApart(t *testing.T) {
	bash := valuemodel.Upstream{Name: "up", Provider: "claude-code"}
	const ls, rm = `{"command":"ls"}`, `{"command":"rm x"}`
	class := func(c valuemodel.Class) valuemodel.Rule { return rule("Bash", "c:1", valuemodel.Layer{Class: c}) }
	tests := []struct {
		name   string
		tool   string
		rules  []valuemodel.Rule
		ls, rm valuemodel.Class
	}{
		{"provider", "Bash", nil, valuemodel.ReadOnly, valuemodel.Indeterminate},
		{"operator: it reads", "Bash", []valuemodel.Rule{class(valuemodel.ReadOnly)}, valuemodel.ReadOnly, valuemodel.ReadOnly},
		{"operator: it is not known", "Bash", []valuemodel.Rule{class(valuemodel.Indeterminate)}, valuemodel.Indeterminate, valuemodel.Indeterminate},
		{"operator: it writes", "Bash", []valuemodel.Rule{class(valuemodel.MutatesLocal)}, valuemodel.MutatesLocal, valuemodel.MutatesLocal},
		{"operator: what writes is told apart", "Edit", []valuemodel.Rule{rule("Edit", "c:1", valuemodel.Layer{Classify: valuemodel.Shell})}, valuemodel.ReadOnly, valuemodel.Indeterminate},
		{"operator: what reads is told apart", "Read", []valuemodel.Rule{rule("Read", "c:1", valuemodel.Layer{Classify: valuemodel.Shell})}, valuemodel.ReadOnly, valuemodel.Indeterminate},
	}
	for _, tt := range tests {
		m := resolve(t, bash, tt.tool, valuemodel.Hints{}, tt.rules...)
		if got := m.ClassOf(arguments(t, ls), memberNames(t, ls)); got != tt.ls {
			t.Errorf("%s: ls: got %s, want %s", tt.name, got, tt.ls)
		}
		if got := m.ClassOf(arguments(t, rm), memberNames(t, rm)); got != tt.rm {
			t.Errorf("%s: rm: got %s, want %s", tt.name, got, tt.rm)
		}
	}
}

func TestFile(t *testing.T) {
	m := resolve(t, valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "Read", valuemodel.Hints{})
	tests := []struct {
		args, path string
		ok         bool
	}{
		{`{"file_path":"/a/b.go"}`, "/a/b.go", true},
		{`{"file_path":"/a b/ü"}`, "/a b/ü", true},
		{`{"file_path":"a/b.go"}`, "", false},
		{`{"file_path":"~/b.go"}`, "", false},
		{`{"file_path":"/a/../b"}`, "", false},
		{`{"file_path":"/a//b"}`, "", false},
		{`{"file_path":"/a/"}`, "", false},
		{`{"file_path":""}`, "", false},
		{`{"file_path":"/a\u0000"}`, "", false},
		{`{"file_path":"/a\n"}`, "", false},
		{`{"file_path":"/a\ud800"}`, "", false},
		{`{"file_path":7}`, "", false},
		{`{"file_path":["/a"]}`, "", false},
		{`{}`, "", false},
		{``, "", false},
	}
	for _, tt := range tests {
		if path, ok := m.File(arguments(t, tt.args)); path != tt.path || ok != tt.ok {
			t.Errorf("%s: got %q, %v, want %q, %v", tt.args, path, ok, tt.path, tt.ok)
		}
	}
	grep := resolve(t, valuemodel.Upstream{Name: "up", Provider: "claude-code"}, "Grep", valuemodel.Hints{})
	if path, ok := grep.File(unknown); path != "" || !ok {
		t.Errorf("without validate: got %q, %v", path, ok)
	}
	far := resolve(t, valuemodel.Upstream{Name: "up", Provider: "claude-code", URL: "https://a.example"}, "Read", valuemodel.Hints{},
		rule("*", "c:1", valuemodel.Layer{Validate: valuemodel.Validate{File: "path"}}))
	if far.Validate.File != "" {
		t.Errorf("for a server on another machine: got validate %q", far.Validate.File)
	}
}

// UsesArguments reports false for a model that needs no argument. The caller then passes none.
func TestAsks(t *testing.T) {
	tests := []struct {
		name string
		rule valuemodel.Layer
		want bool
	}{
		{"not known", valuemodel.Layer{}, false},
		{"reads, so that its calls are told apart", valuemodel.Layer{Class: valuemodel.ReadOnly}, true},
		{"told apart", valuemodel.Layer{Classify: valuemodel.Shell}, true},
		{"a url", valuemodel.Layer{URLArgument: "url"}, true},
		{"an edge", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "x"}}}, false},
		{"an edge that matches", valuemodel.Layer{Invalidates: []valuemodel.Edge{{Tool: "x", Match: []string{"id"}}}}, true},
	}
	for _, tt := range tests {
		m := resolve(t, valuemodel.Upstream{Name: "up"}, "t", valuemodel.Hints{}, rule("t", "c:1", tt.rule))
		if m.UsesArguments() != tt.want {
			t.Errorf("%s: got %v", tt.name, m.UsesArguments())
		}
	}
}
