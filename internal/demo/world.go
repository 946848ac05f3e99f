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

// world is the data of the servers. Every process starts with the same data.
type world struct {
	Files map[string]string // path from the root → content
	Tools map[string]struct {
		Server, Description, Schema string
		MS                          float64 // typical unscaled latency
		Reads                       bool    // the tool is read-only
	}

	mu     sync.Mutex // guards Issues; the other fields never change
	Issues []*issue   // most recently updated first
}

type issue struct {
	Number   int      `json:"number"`
	Title    string   `json:"title"`
	State    string   `json:"state"` // open or closed
	Labels   []string `json:"labels"`
	Author   string   `json:"author"`
	Assignee string   `json:"assignee,omitempty"`
	Body     string   `json:"body,omitempty"` // not in lists
	Comments []string `json:"-"`              // the comments, oldest first: "author: text"
}

func newWorld() *world {
	w := &world{}
	if _, err := toml.Decode(worldFile, w); err != nil {
		panic(err) // the file is embedded
	}
	return w
}

// arguments is the union of the arguments of all tools.
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

// call calls a tool.
func (w *world) call(tool string, a arguments) (any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch tool {
	case "list_issues":
		state := cmp.Or(a.State, "open")
		return w.listing(func(i *issue) bool {
			return (state == "all" || i.State == state) && (a.Label == "" || slices.Contains(i.Labels, a.Label))
		}), nil
	case "search_issues":
		return w.listing(func(i *issue) bool {
			return strings.Contains(i.Title+"\n"+i.Body+"\n"+strings.Join(i.Comments, "\n"), a.Query)
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
		return w.grep(a.Query), nil
	}
	at := slices.IndexFunc(w.Issues, func(i *issue) bool { return i.Number == a.Number })
	if at < 0 {
		return nil, fmt.Errorf("issue %d: not found", a.Number)
	}
	i := w.Issues[at]
	switch tool {
	case "get_issue_comments":
		return map[string]any{"issue": a.Number, "comments": append([]string{}, i.Comments...)}, nil
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
		i.Comments = append(i.Comments, "agent: "+a.Comment)
	}
}

// listing returns the result of a list or search: the issues for which keep returns true,
// without their bodies.
func (w *world) listing(keep func(*issue) bool) any {
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

// directory lists a directory. Paths of directories end in a slash.
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

// grep returns the lines of all files that contain a text.
func (w *world) grep(query string) any {
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
