package demo

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

//go:embed world.toml
var worldFile string

// world is what a server shows. Every process begins with the same one.
type world struct {
	Files map[string]string // path from the root → content; never changed

	mu     sync.Mutex // guards the issues
	Issues []*issue   // last updated first
}

type issue struct {
	Number   int      `json:"number"`
	Title    string   `json:"title"`
	State    string   `json:"state"` // open or closed
	Labels   []string `json:"labels"`
	Author   string   `json:"author"`
	Assignee string   `json:"assignee,omitempty"`
	Comments int      `json:"comments"`
	Body     string   `json:"body,omitempty"` // not in lists
	Said     []string `json:"-"`              // the comments, oldest first: "author: text"
}

func newWorld() *world {
	w := &world{}
	if _, err := toml.Decode(worldFile, w); err != nil {
		panic(err) // it is in the program
	}
	for _, i := range w.Issues {
		i.Comments = len(i.Said)
	}
	return w
}

// trackerTools is what the tracker offers.
func trackerTools(w *world) []server.ServerTool {
	number := mcp.WithInteger("issue_number", mcp.Required(), mcp.Min(1), mcp.Description("the issue's number"))
	return []server.ServerTool{
		tool(w.list, "list_issues", "List issues, last updated first.", hints(true),
			mcp.WithString("state", mcp.Enum("open", "closed", "all"), mcp.DefaultString("open")),
			mcp.WithString("label", mcp.Description("only issues with this label"))),
		tool(w.get, "get_issue", "Read one issue.", hints(true), number),
		tool(w.comments, "get_issue_comments", "Read the comments on one issue, oldest first.", hints(true), number),
		tool(w.search, "search_issues", "Find issues, open and closed, that hold the text in title, body or comments.", hints(true),
			mcp.WithString("query", mcp.Required(), mcp.MinLength(1))),
		tool(w.update, "update_issue", "Change an issue's state, labels or assignee, and comment on it. What is not given stays.", hints(false), number,
			mcp.WithString("state", mcp.Enum("open", "closed")),
			mcp.WithArray("labels", mcp.WithStringItems(), mcp.Description("all labels it shall have")),
			mcp.WithString("assignee"),
			mcp.WithString("comment")),
	}
}

// trackerArgs are the arguments of all its tools; each takes some of them.
type trackerArgs struct {
	Number   int      `json:"issue_number"`
	State    string   `json:"state"`
	Label    string   `json:"label"`
	Query    string   `json:"query"`
	Labels   []string `json:"labels"`
	Assignee string   `json:"assignee"`
	Comment  string   `json:"comment"`
}

func (w *world) list(a trackerArgs) (any, error) {
	state := cmp.Or(a.State, "open")
	return w.found(func(i *issue) bool {
		return (state == "all" || i.State == state) && (a.Label == "" || slices.Contains(i.Labels, a.Label))
	}), nil
}

func (w *world) search(a trackerArgs) (any, error) {
	return w.found(func(i *issue) bool {
		return strings.Contains(i.Title+"\n"+i.Body+"\n"+strings.Join(i.Said, "\n"), a.Query)
	}), nil
}

// found is the answer of a list or a search: the issues that keep wants, without their text.
func (w *world) found(keep func(*issue) bool) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := []issue{}
	for _, i := range w.Issues {
		if keep(i) {
			short := *i
			short.Body = ""
			all = append(all, short)
		}
	}
	return map[string]any{"total": len(all), "items": all}
}

// one calls do with an issue, by its place, while nothing else changes it.
func (w *world) one(number int, do func(at int) any) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := slices.IndexFunc(w.Issues, func(i *issue) bool { return i.Number == number }); at >= 0 {
		return do(at), nil
	}
	return nil, fmt.Errorf("issue %d: not found", number)
}

func (w *world) get(a trackerArgs) (any, error) {
	return w.one(a.Number, func(at int) any { return *w.Issues[at] })
}

func (w *world) comments(a trackerArgs) (any, error) {
	return w.one(a.Number, func(at int) any {
		return map[string]any{"issue": a.Number, "comments": append([]string{}, w.Issues[at].Said...)}
	})
}

func (w *world) update(a trackerArgs) (any, error) {
	return w.one(a.Number, func(at int) any {
		i := w.Issues[at]
		i.State, i.Assignee = cmp.Or(a.State, i.State), cmp.Or(a.Assignee, i.Assignee)
		if a.Labels != nil {
			i.Labels = a.Labels
		}
		if a.Comment != "" {
			i.Said = append(i.Said, "agent: "+a.Comment)
			i.Comments++
		}
		w.Issues = slices.Insert(slices.Delete(w.Issues, at, at+1), 0, i)
		return *i
	})
}

// fileTools is what the file server offers.
func fileTools(w *world) []server.ServerTool {
	return []server.ServerTool{
		tool(w.directory, "list_directory", "List a directory of the source tree.", hints(true),
			mcp.WithString("path", mcp.DefaultString("."), mcp.Description("from the root"))),
		tool(w.file, "read_file", "Read a whole file of the source tree.", hints(true),
			mcp.WithString("path", mcp.Required(), mcp.MinLength(1), mcp.Description("from the root"))),
		tool(w.lines, "search_files", "Find the lines of the source tree that hold a text, as it is written.", hints(true),
			mcp.WithString("query", mcp.Required(), mcp.MinLength(1))),
	}
}

type fileArgs struct {
	Path  string `json:"path"`
	Query string `json:"query"`
}

// directory lists paths; those of directories end in a slash.
func (w *world) directory(a fileArgs) (any, error) {
	dir, seen := path.Clean(cmp.Or(a.Path, ".")), map[string]bool{}
	above := strings.TrimPrefix(dir+"/", "./")
	for file := range w.Files {
		if rest, inside := strings.CutPrefix(file, above); inside {
			name, _, deeper := strings.Cut(rest, "/")
			seen[above+name+map[bool]string{true: "/"}[deeper]] = true
		}
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("directory %q: not found", dir)
	}
	return map[string]any{"path": dir, "entries": slices.Sorted(maps.Keys(seen))}, nil
}

func (w *world) file(a fileArgs) (any, error) {
	file := path.Clean(a.Path)
	text, ok := w.Files[file]
	if !ok {
		return nil, fmt.Errorf("file %q: not found", file)
	}
	return map[string]any{"path": file, "size": len(text), "content": text}, nil
}

func (w *world) lines(a fileArgs) (any, error) {
	type match struct {
		Path string `json:"path"`
		Line int    `json:"line"` // from 1
		Text string `json:"text"` // without indentation
	}
	found := []match{}
	for _, file := range slices.Sorted(maps.Keys(w.Files)) {
		for n, line := range strings.Split(w.Files[file], "\n") {
			if strings.Contains(line, a.Query) {
				found = append(found, match{file, n + 1, strings.TrimSpace(line)})
			}
		}
	}
	return map[string]any{"total": len(found), "matches": found}, nil
}
