package valuemodel_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/valuemodel"
)

// toolList is a recorded response of a real server to tools/list, reduced to what its classes
// depend on. Each tool has the class that it must get.
type toolList struct {
	Provider string       // name of the provider's table
	Server   string       // name in the server's handshake; "" if not known
	Tools    []listedTool //
}

type listedTool struct {
	Name            string
	ReadOnlyHint    *bool
	DestructiveHint *bool
	Class           valuemodel.Class
	Args            []string // names of its arguments
}

func (l toolList) args(tool string) ([]string, bool) {
	i := slices.IndexFunc(l.Tools, func(t listedTool) bool { return t.Name == tool })
	if i < 0 {
		return nil, false
	}
	return l.Tools[i].Args, true
}

// eachList runs check on every recorded list with its provider.
func eachList(t *testing.T, check func(*testing.T, toolList, valuemodel.Provider)) {
	t.Helper()
	files, err := filepath.Glob("testdata/tools/*.json")
	if err != nil || len(files) < 50 {
		t.Fatalf("got %d tool lists (%v), want at least 50", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var list toolList
			if err := json.Unmarshal(text, &list); err != nil {
				t.Fatal(err)
			}
			if len(list.Tools) == 0 {
				t.Fatal("no tools")
			}
			check(t, list, providerNamed(t, list.Provider))
		})
	}
}

func providerNamed(t *testing.T, name string) valuemodel.Provider {
	t.Helper()
	for _, p := range allProviders() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no provider %q", name)
	panic("unreachable")
}

func TestEveryListedToolHasItsClass(t *testing.T) {
	eachList(t, func(t *testing.T, list toolList, p valuemodel.Provider) {
		if list.Server != "" && !slices.Contains(p.Servers, strings.ToLower(list.Server)) {
			t.Errorf("provider %s does not have the server name %q", p.Name, list.Server)
		}
		for _, tool := range list.Tools {
			switch got := p.Tools[tool.Name].Class; {
			case tool.Class == "":
				t.Errorf("%s: no class in the list", tool.Name)
			case got == "":
				t.Errorf("%s: no class in provider %s", tool.Name, p.Name)
			case got != tool.Class:
				t.Errorf("%s: got class %s, want %s", tool.Name, got, tool.Class)
			}
		}
	})
}

// If the operator names the provider, each tool has the class in the provider's table.
func TestListedToolsResolveToTheirClass(t *testing.T) {
	models, _ := valuemodel.Compile(nil)
	eachList(t, func(t *testing.T, list toolList, p valuemodel.Provider) {
		for _, tool := range list.Tools {
			u, h := valuemodel.Upstream{Name: "up", Provider: p.Name}, valuemodel.Hints{ReadOnly: tool.ReadOnlyHint, Destructive: tool.DestructiveHint}
			if m := models.Resolve(u, tool.Name, h); m.Class != tool.Class {
				t.Errorf("%s: got class %s, want %s", tool.Name, m.Class, tool.Class)
			}
		}
	})
}

// A server that was recognised by its command line needs no trust, but a hint that a tool writes
// counts.
func TestListedToolsAreKnownByTheWords(t *testing.T) {
	models, _ := valuemodel.Compile(nil)
	eachList(t, func(t *testing.T, list toolList, p valuemodel.Provider) {
		u := valuemodel.Upstream{Name: "up", Recognised: valuemodel.Recognised{Provider: p.Name, By: "these words"}}
		for _, tool := range list.Tools {
			h := valuemodel.Hints{ReadOnly: tool.ReadOnlyHint, Destructive: tool.DestructiveHint, Arguments: append([]string{}, tool.Args...)}
			want := tool.Class
			denied := h.ReadOnly != nil && !*h.ReadOnly || h.Destructive != nil && *h.Destructive || p.Name == "claude-code"
			if denied && want.Reads() {
				want = valuemodel.Indeterminate
			}
			m := models.Resolve(u, tool.Name, h)
			if m.Class != want {
				t.Errorf("%s: got class %s, want %s", tool.Name, m.Class, want)
			}
			if says := p.Tools[tool.Name].Classify; says != m.Classify && !denied {
				t.Errorf("%s: its calls are not classified by %s", tool.Name, says)
			}
		}
	})
}

// An edge only matches arguments that both tools in the same list have.
func TestMatchedArgumentsAreOfBothSides(t *testing.T) {
	matched := 0
	eachList(t, func(t *testing.T, list toolList, p valuemodel.Provider) {
		for _, writer := range list.Tools {
			for _, edge := range p.Tools[writer.Name].Invalidates {
				reader, there := list.args(edge.Tool)
				for _, arg := range edge.Match {
					if !slices.Contains(writer.Args, arg) {
						t.Errorf("%s -> %s: %s has no argument %q", writer.Name, edge.Tool, writer.Name, arg)
					}
					if there && !slices.Contains(reader, arg) {
						t.Errorf("%s -> %s: %s has no argument %q", writer.Name, edge.Tool, edge.Tool, arg)
					}
					matched++
				}
			}
		}
	})
	if matched == 0 {
		t.Error("no edge matches arguments: the test proves nothing")
	}
}

// A table may have follow-ups for several versions of a server. One of those between two tools
// must fit each list.
func TestFollowUpsFitTheirTools(t *testing.T) {
	fitted := 0
	eachList(t, func(t *testing.T, list toolList, p valuemodel.Provider) {
		for _, trigger := range list.Tools {
			fits := map[string]bool{}
			for _, next := range p.Tools[trigger.Name].FollowUps {
				target, there := list.args(next.Tool)
				if !there {
					continue
				}
				ok := true
				for arg := range next.Args {
					ok = ok && slices.Contains(target, arg)
				}
				fits[next.Tool] = fits[next.Tool] || ok
			}
			for tool, ok := range fits {
				if !ok {
					t.Errorf("%s -> %s: no follow-up has only arguments that %s takes", trigger.Name, tool, tool)
				}
				fitted++
			}
		}
	})
	if fitted == 0 {
		t.Error("no list has a follow-up: the test proves nothing")
	}
}

func TestValidatedFilesAreArguments(t *testing.T) {
	eachList(t, func(t *testing.T, list toolList, p valuemodel.Provider) {
		for _, tool := range list.Tools {
			layer := p.Tools[tool.Name]
			for _, arg := range []string{layer.Validate.File, layer.URLArgument} {
				if arg != "" && !slices.Contains(tool.Args, arg) {
					t.Errorf("%s has no argument %q", tool.Name, arg)
				}
			}
		}
	})
}
