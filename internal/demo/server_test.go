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

// asker calls tools and decodes what they answer.
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
	open := map[string]any{"state": "open", "label": "bug"}
	before, _ := ask("tracker", "list_issues", open)
	top := before["items"].([]any)[0].(map[string]any)
	one := map[string]any{"issue_number": top["number"]}
	talk, _ := ask("tracker", "get_issue_comments", one)

	ask("tracker", "update_issue", map[string]any{"issue_number": top["number"],
		"state": "closed", "assignee": "mira", "labels": []string{"bug", "wontfix"}, "comment": "Works as meant."})

	got, _ := ask("tracker", "get_issue", one)
	want := map[string]any{"state": "closed", "assignee": "mira", "labels": []any{"bug", "wontfix"},
		"comments": top["comments"].(float64) + 1, "title": top["title"]}
	for name, w := range want {
		if diff := cmp.Diff(w, got[name]); diff != "" {
			t.Errorf("%s after the update (-want +got):\n%s", name, diff)
		}
	}
	if got["updated_at"].(string) <= top["updated_at"].(string) {
		t.Errorf("updated_at: got %v, want it after %v", got["updated_at"], top["updated_at"])
	}
	after, _ := ask("tracker", "list_issues", open)
	if after["total"] != before["total"].(float64)-1 {
		t.Errorf("open bugs: got %v, want one less than %v", after["total"], before["total"])
	}
	said, _ := ask("tracker", "get_issue_comments", one)
	comments := said["comments"].([]any)
	if len(comments) != len(talk["comments"].([]any))+1 || comments[len(comments)-1].(map[string]any)["body"] != "Works as meant." {
		t.Errorf("comments: got %v, want the new one last", comments)
	}
	found, _ := ask("tracker", "search_issues", map[string]any{"query": "WORKS meant"})
	if found["total"] != 1.0 {
		t.Errorf("search for the new comment: got %v found, want 1", found["total"])
	}
}

// Of two writes the later one is listed first.
func TestUpdatesAreOrdered(t *testing.T) {
	ask := asker(t)
	for _, n := range []int{20, 5, 13, 5} {
		ask("tracker", "update_issue", map[string]any{"issue_number": n, "comment": "again"})
	}
	v, _ := ask("tracker", "list_issues", map[string]any{"state": "all", "per_page": 3})
	var got []any
	for _, i := range v["items"].([]any) {
		got = append(got, i.(map[string]any)["number"])
	}
	if diff := cmp.Diff([]any{5.0, 13.0, 20.0}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// The same calls on another server of the same kind give the same bytes, or
// the demo could not compare two runs.
func TestSameData(t *testing.T) {
	first, second := asker(t), asker(t)
	for n := 1; n <= 40; n++ {
		for _, tool := range []string{"get_issue", "get_issue_comments"} {
			args := map[string]any{"issue_number": n}
			a, ok := first("tracker", tool, args)
			b, _ := second("tracker", tool, args)
			if diff := cmp.Diff(a, b); diff != "" || !ok {
				t.Errorf("%s %d (ok %v):\n%s", tool, n, ok, diff)
			}
		}
	}
	a, _ := first("tracker", "list_issues", map[string]any{"state": "all", "per_page": 50})
	b, _ := second("tracker", "list_issues", map[string]any{"state": "all", "per_page": 50})
	if diff := cmp.Diff(a, b); diff != "" || a["total"] != 40.0 {
		t.Errorf("list of %v, want 40:\n%s", a["total"], diff)
	}
}

func TestPages(t *testing.T) {
	ask := asker(t)
	seen := map[any]bool{}
	for page := 1; page <= 5; page++ {
		v, _ := ask("tracker", "list_issues", map[string]any{"state": "all", "page": page, "per_page": 9})
		for _, i := range v["items"].([]any) {
			seen[i.(map[string]any)["number"]] = true
		}
	}
	if len(seen) != 40 {
		t.Errorf("issues on 5 pages of 9: got %d, want all 40", len(seen))
	}
	if v, ok := ask("tracker", "list_issues", map[string]any{"page": 100}); !ok || len(v["items"].([]any)) != 0 {
		t.Errorf("page 100: got %v, want none", v)
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
			e := e.(map[string]any)
			if e["type"] == "directory" {
				files += walk(e["path"].(string))
				continue
			}
			files++
			f, ok := ask("files", "read_file", map[string]any{"path": e["path"]})
			if !ok || f["size"] != e["size"] || float64(len(f["content"].(string))) != e["size"] {
				t.Errorf("read_file %s: got size %v, want %v", e["path"], f["size"], e["size"])
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

// The proxy decides by these hints what it may do early.
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
