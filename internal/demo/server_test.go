package demo_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/demo"
)

// asker calls tools and decodes their answers.
func asker(t *testing.T) func(server, tool string, args map[string]any) map[string]any {
	do, end := inProcess(t, 1e9)
	t.Cleanup(end)
	return func(server, tool string, args map[string]any) map[string]any {
		t.Helper()
		r, err := do(t.Context(), demo.Call{Server: server, Tool: tool, Args: args})
		if err != nil || r.IsError {
			t.Fatalf("%s %s: got %v, %v", server, tool, r, err)
		}
		text := r.Content[0].(mcp.TextContent).Text
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%s %s: %v in %s", server, tool, err, text)
		}
		return v
	}
}

func TestUpdateChangesWhatIsRead(t *testing.T) {
	ask := asker(t)
	one, open := map[string]any{"issue_number": 25}, map[string]any{"state": "open", "label": "bug"}
	before := ask("tracker", "list_issues", open)
	talk := ask("tracker", "get_issue_comments", one)

	ask("tracker", "update_issue", map[string]any{"issue_number": 25,
		"state": "closed", "assignee": "mira", "labels": []string{"bug", "wontfix"}, "comment": "Works as meant."})

	got := ask("tracker", "get_issue", one)
	want := map[string]any{"state": "closed", "assignee": "mira", "labels": []any{"bug", "wontfix"}}
	for name, w := range want {
		if diff := cmp.Diff(w, got[name]); diff != "" {
			t.Errorf("%s after the update (-want +got):\n%s", name, diff)
		}
	}
	if after := ask("tracker", "list_issues", open); after["total"] != before["total"].(float64)-1 {
		t.Errorf("open bugs: got %v, want one less than %v", after["total"], before["total"])
	}
	list := ask("tracker", "list_issues", map[string]any{"state": "all"})
	if first := list["items"].([]any)[0].(map[string]any); first["number"] != 25.0 {
		t.Errorf("got issue %v first, want the one that was updated last", first["number"])
	}
	said := ask("tracker", "get_issue_comments", one)
	comments := said["comments"].([]any)
	if len(comments) != len(talk["comments"].([]any))+1 || comments[len(comments)-1] != "agent: Works as meant." {
		t.Errorf("comments: got %v, want the new one last", comments)
	}
	if found := ask("tracker", "search_issues", map[string]any{"query": "as meant"}); found["total"] != 1.0 {
		t.Errorf("search for the new comment: got %v found, want 1", found["total"])
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
			}
		}
	}
}
