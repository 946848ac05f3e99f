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
)

//go:embed world.toml
var worldFile string

// world is what the servers show. Every process begins with the same one.
type world struct {
	Files map[string]string // path from the root → content
	Tools map[string]struct {
		Server, Description, Schema string
		MS                          float64 // that it typically takes in life
		Reads                       bool    // it changes nothing
	}

	mu     sync.Mutex // guards the issues; the rest never changes
	Issues []*issue   // last updated first
}

type issue struct {
	Number   int      `json:"number"`
	Title    string   `json:"title"`
	State    string   `json:"state"` // open or closed
	Labels   []string `json:"labels"`
	Author   string   `json:"author"`
	Assignee string   `json:"assignee,omitempty"`
	Body     string   `json:"body,omitempty"` // not in lists
	Said     []string `json:"-"`              // the comments, oldest first: "author: text"
}

func newWorld() *world {
	w := &world{}
	if _, err := toml.Decode(worldFile, w); err != nil {
		panic(err) // it is in the program
	}
	return w
}

// arguments are those of all tools; each takes some of them.
type arguments struct {
	Number   int      `json:"issue_number"`
	State    string   `json:"state"`
	Label    string   `json:"label"`
	Query    string   `json:"query"`
	Path     string   `json:"path"`
	Labels   []string `json:"labels"`
	Assignee string   `json:"assignee"`
	Comment  string   `json:"comment"`
}

// do is a call of one of the tools.
func (w *world) do(tool string, a arguments) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch tool {
	case "list_issues":
		state := cmp.Or(a.State, "open")
		return w.found(func(i *issue) bool {
			return (state == "all" || i.State == state) && (a.Label == "" || slices.Contains(i.Labels, a.Label))
		}), nil
	case "search_issues":
		return w.found(func(i *issue) bool {
			return strings.Contains(i.Title+"\n"+i.Body+"\n"+strings.Join(i.Said, "\n"), a.Query)
		}), nil
	case "list_directory":
		return w.directory(path.Clean(cmp.Or(a.Path, ".")))
	case "read_file":
		file := path.Clean(a.Path)
		if text, ok := w.Files[file]; ok {
			return map[string]any{"path": file, "size": len(text), "content": text}, nil
		}
		return nil, fmt.Errorf("file %q: not found", file)
	case "search_files":
		return w.lines(a.Query), nil
	}
	at := slices.IndexFunc(w.Issues, func(i *issue) bool { return i.Number == a.Number })
	if at < 0 {
		return nil, fmt.Errorf("issue %d: not found", a.Number)
	}
	i := w.Issues[at]
	switch tool {
	case "get_issue_comments":
		return map[string]any{"issue": a.Number, "comments": append([]string{}, i.Said...)}, nil
	case "update_issue":
		w.Issues = slices.Insert(slices.Delete(w.Issues, at, at+1), 0, i)
		i.update(a)
	}
	return *i, nil
}

func (i *issue) update(a arguments) {
	i.State, i.Assignee = cmp.Or(a.State, i.State), cmp.Or(a.Assignee, i.Assignee)
	if a.Labels != nil {
		i.Labels = a.Labels
	}
	if a.Comment != "" {
		i.Said = append(i.Said, "agent: "+a.Comment)
	}
}

// found is the answer of a list or a search: the issues that keep wants, without their text.
func (w *world) found(keep func(*issue) bool) any {
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

// directory lists paths; those of directories end in a slash.
func (w *world) directory(dir string) (any, error) {
	above, seen := strings.TrimPrefix(dir+"/", "./"), map[string]bool{}
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

// lines are those of all files that hold a text.
func (w *world) lines(query string) any {
	type match struct {
		Path string `json:"path"`
		Line int    `json:"line"` // from 1
		Text string `json:"text"` // without indentation
	}
	found := []match{}
	for _, file := range slices.Sorted(maps.Keys(w.Files)) {
		for n, line := range strings.Split(w.Files[file], "\n") {
			if strings.Contains(line, query) {
				found = append(found, match{file, n + 1, strings.TrimSpace(line)})
			}
		}
	}
	return map[string]any{"total": len(found), "matches": found}
}
