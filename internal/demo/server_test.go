package demo_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/demo"
)

// asker calls tools and decodes their answers.
func asker(t *testing.T) func(server, tool string, args map[string]any) (map[string]any, bool) {
	do, end := inProcess(t, 1e9)
	t.Cleanup(end)
	return func(server, tool string, args map[string]any) (map[string]any, bool) {
		t.Helper()
		r, err := do(t.Context(), demo.Call{Server: server, Tool: tool, Args: args})
		if err != nil {
			t.Fatal(err)
		}
		text := r.Content[0].(mcp.TextContent).Text
		if r.IsError {
			return map[string]any{"error": text}, false
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s %s: %v in %s", server, tool, err, text)
		}
		return v, true
	}
}

func TestUpdateChangesWhatIsRead(t *testing.T) {
	ask := asker(t)
	one, open := map[string]any{"issue_number": 25}, map[string]any{"state": "open", "label": "bug"}
	before, _ := ask("tracker", "list_issues", open)
	talk, _ := ask("tracker", "get_issue_comments", one)

	ask("tracker", "update_issue", map[string]any{"issue_number": 25,
		"state": "closed", "assignee": "mira", "labels": []string{"bug", "wontfix"}, "comment": "Works as meant."})

	got, _ := ask("tracker", "get_issue", one)
	want := map[string]any{"state": "closed", "assignee": "mira", "labels": []any{"bug", "wontfix"}}
	for name, w := range want {
		if diff := cmp.Diff(w, got[name]); diff != "" {
			t.Errorf("%s after the update (-want +got):\n%s", name, diff)
		}
	}
	if after, _ := ask("tracker", "list_issues", open); after["total"] != before["total"].(float64)-1 {
		t.Errorf("open bugs: got %v, want one less than %v", after["total"], before["total"])
	}
	list, _ := ask("tracker", "list_issues", map[string]any{"state": "all"})
	if first := list["items"].([]any)[0].(map[string]any); first["number"] != 25.0 {
		t.Errorf("got issue %v first, want the one that was updated last", first["number"])
	}
	said, _ := ask("tracker", "get_issue_comments", one)
	comments := said["comments"].([]any)
	if len(comments) != len(talk["comments"].([]any))+1 || comments[len(comments)-1] != "agent: Works as meant." {
		t.Errorf("comments: got %v, want the new one last", comments)
	}
	if found, _ := ask("tracker", "search_issues", map[string]any{"query": "as meant"}); found["total"] != 1.0 {
		t.Errorf("search for the new comment: got %v found, want 1", found["total"])
	}
}

// Every directory listed and every path found can be read.
func TestTree(t *testing.T) {
	ask := asker(t)
	var walk func(dir string) (files int)
	walk = func(dir string) (files int) {
		v, ok := ask("files", "list_directory", map[string]any{"path": dir})
		if !ok {
			t.Errorf("list_directory %s: got %v", dir, v)
			return 0
		}
		for _, e := range v["entries"].([]any) {
			path := e.(string)
			if strings.HasSuffix(path, "/") {
				files += walk(path)
				continue
			}
			files++
			f, ok := ask("files", "read_file", map[string]any{"path": path})
			if !ok || float64(len(f["content"].(string))) != f["size"] {
				t.Errorf("read_file %s: got size %v", path, f["size"])
			}
		}
		return files
	}
	if got := walk("."); got != 13 {
		t.Errorf("files: got %d, want 13", got)
	}
	v, _ := ask("files", "search_files", map[string]any{"query": "chargeOnce"})
	for _, m := range v["matches"].([]any) {
		m := m.(map[string]any)
		f, _ := ask("files", "read_file", map[string]any{"path": m["path"]})
		line := strings.Split(f["content"].(string), "\n")[int(m["line"].(float64))-1]
		if strings.TrimSpace(line) != m["text"] {
			t.Errorf("%s:%v: got %q, want %q", m["path"], m["line"], line, m["text"])
		}
	}
}

func TestBadCalls(t *testing.T) {
	ask := asker(t)
	for _, test := range []struct {
		name, server, tool string
		args               map[string]any
		want               string
	}{
		{"no such issue", "tracker", "get_issue", map[string]any{"issue_number": 99}, "issue 99: not found"},
		{"update of no issue", "tracker", "update_issue", map[string]any{"issue_number": 99}, "issue 99: not found"},
		{"comments on no issue", "tracker", "get_issue_comments", map[string]any{"issue_number": 99}, "issue 99: not found"},
		{"number missing", "tracker", "get_issue", nil, "issue_number"},
		{"number is text", "tracker", "get_issue", map[string]any{"issue_number": "36"}, "issue_number"},
		{"unknown argument", "tracker", "get_issue", map[string]any{"issue_number": 36, "depth": 2}, "depth"},
		{"state unknown", "tracker", "list_issues", map[string]any{"state": "lost"}, "state"},
		{"no such file", "files", "read_file", map[string]any{"path": "../secret"}, `file "../secret": not found`},
		{"directory read as a file", "files", "read_file", map[string]any{"path": "billing"}, `file "billing": not found`},
		{"no such directory", "files", "list_directory", map[string]any{"path": "bill"}, `directory "bill": not found`},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, ok := ask(test.server, test.tool, test.args)
			if ok || !strings.Contains(fmt.Sprint(v["error"]), test.want) {
				t.Errorf("got %v, want an error that says %q", v, test.want)
			}
		})
	}
}

// The proxy uses these hints to decide what it may prefetch.
func TestHints(t *testing.T) {
	for _, name := range []string{"tracker", "files"} {
		s, err := demo.NewUpstream(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		for tool, st := range s.ListTools() {
			a := st.Tool.Annotations
			writes := tool == "update_issue"
			if *a.ReadOnlyHint == writes || *a.DestructiveHint != writes || *a.IdempotentHint == writes || *a.OpenWorldHint {
				t.Errorf("%s: got hints read-only %v, destructive %v, idempotent %v, open world %v", tool,
					*a.ReadOnlyHint, *a.DestructiveHint, *a.IdempotentHint, *a.OpenWorldHint)
			}
			for n := range 200 {
				args := map[string]any{"issue_number": n, "path": fmt.Sprint("a/", n)}
				got := demo.Latency(tool, args)
				if got < 100*time.Millisecond || got > 900*time.Millisecond {
					t.Errorf("latency of %s %v: got %v, want 100-900 ms", tool, args, got)
				}
				// As the server sees them: decoded, numbers are floats.
				if again := demo.Latency(tool, map[string]any{"path": fmt.Sprint("a/", n), "issue_number": float64(n)}); again != got {
					t.Errorf("latency of %s %v: got %v, then %v", tool, args, got, again)
				}
			}
		}
	}
}
