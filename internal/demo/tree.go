package demo

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// entry is a file or directory as a listing shows it.
type entry struct {
	Name string `json:"name"`
	Path string `json:"path"` // from the root, without a leading slash
	Type string `json:"type"` // file or directory
	Size int    `json:"size"` // bytes; of a directory, 0
}

type listing struct {
	Path    string  `json:"path"`
	Entries []entry `json:"entries"` // by name
}

type content struct {
	Path    string `json:"path"`
	Size    int    `json:"size"` // bytes
	Content string `json:"content"`
}

// match is one line that holds what was searched for.
type match struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1
	Text string `json:"text"` // without indentation
}

type matches struct {
	Total int     `json:"total"`
	Items []match `json:"matches"` // by path and line, the first fifty
}

type pathArgs struct {
	Path string `json:"path"`
}

// tree is the source tree: path from the root → content. It never changes.
type tree map[string]string

// fileTools is what the file server offers.
func fileTools() []server.ServerTool {
	t := sourceTree()
	return []server.ServerTool{
		tool(mcp.NewTool("list_directory", reads(),
			mcp.WithDescription("List a directory of the source tree."),
			mcp.WithString("path", mcp.DefaultString("."), mcp.Description("from the root")),
		), t.list),
		tool(mcp.NewTool("read_file", reads(),
			mcp.WithDescription("Read a whole file of the source tree."),
			mcp.WithString("path", mcp.Required(), mcp.MinLength(1), mcp.Description("from the root")),
		), t.read),
		tool(mcp.NewTool("search_files", reads(),
			mcp.WithDescription("Find the lines of the source tree that hold a text, as it is written."),
			mcp.WithString("query", mcp.Required(), mcp.MinLength(1)),
		), t.search),
	}
}

func (t tree) list(a pathArgs) (any, error) {
	dir := path.Clean(cmp.Or(a.Path, "."))
	seen := map[string]entry{}
	for file, text := range t {
		rest, inside := strings.CutPrefix(file, dir+"/")
		if dir == "." {
			rest, inside = file, true
		}
		if !inside {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		e := entry{Name: name, Path: path.Join(dir, name), Type: "file", Size: len(text)}
		if deeper {
			e.Type, e.Size = "directory", 0
		}
		seen[name] = e
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("directory %q: not found", dir)
	}
	return listing{dir, slices.SortedFunc(maps.Values(seen), func(a, b entry) int {
		return cmp.Compare(a.Name, b.Name)
	})}, nil
}

func (t tree) read(a pathArgs) (any, error) {
	file := path.Clean(a.Path)
	text, ok := t[file]
	if !ok {
		return nil, fmt.Errorf("file %q: not found", file)
	}
	return content{file, len(text), text}, nil
}

func (t tree) search(a searchArgs) (any, error) {
	found := []match{}
	for _, file := range slices.Sorted(maps.Keys(t)) {
		for n, line := range strings.Split(t[file], "\n") {
			if strings.Contains(line, a.Query) {
				found = append(found, match{file, n + 1, strings.TrimSpace(line)})
			}
		}
	}
	return matches{len(found), found[:min(50, len(found))]}, nil
}
