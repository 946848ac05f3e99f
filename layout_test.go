package mcpschedd_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// module is what the paths of our packages begin with: go.mod says it.
var module = sync.OnceValue(func() string {
	out, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(out)) + "/"
})

// allowed says which of our packages each package may import: the direction in
// which the house is built. A package that is not in it may not exist.
var allowed = map[string][]string{
	"cmd/mcpschedd": {
		"internal/age", "internal/budget", "internal/catalog", "internal/clients", "internal/config", "internal/daemon", "internal/dashboard", "internal/dedup", "internal/demo", "internal/record", "internal/front", "internal/guard", "internal/hook", "internal/importing", "internal/jsonrpc", "internal/limit",
		"internal/nearest", "internal/paths", "internal/plan", "internal/proxy", "internal/replay", "internal/secret", "internal/speculate",
		"internal/state", "internal/tune", "internal/upstream", "internal/valkey", "internal/valuemodel",
	},
	"cmd/mcpschedd-small": {"internal/daemon", "internal/paths"},
	"cmd/mcpschedd-guard": {"internal/guard"},
	"internal/proxy": {
		"internal/age", "internal/budget", "internal/call", "internal/catalog", "internal/classify", "internal/dedup", "internal/deliver",
		"internal/enrich", "internal/excerpt", "internal/front", "internal/jsonrpc", "internal/limit", "internal/nearest", "internal/plan",
		"internal/predict", "internal/record", "internal/revision", "internal/speculate", "internal/upstream", "internal/valuemodel",
	},
	"internal/catalog": { // what the servers offer: names, lists and models
		"internal/call", "internal/dedup", "internal/excerpt", "internal/jsonrpc", "internal/record", "internal/revision", "internal/schema",
		"internal/speculate", "internal/toolsearch", "internal/upstream", "internal/valuemodel",
	},
	"internal/age":        {},                                        // how old something is by both clocks, and how a time is written
	"internal/budget":     {"internal/age"},                          // the tokens of answers, shared out among sessions
	"internal/front":      {"internal/jsonrpc", "internal/revision"}, // the client's side of the wire
	"internal/dedup":      {"internal/age", "internal/call"},
	"internal/speculate":  {"internal/call", "internal/dedup", "internal/enrich", "internal/jsonrpc", "internal/predict", "internal/record"},
	"internal/nearest":    {},
	"internal/clients":    {"internal/age", "internal/secret", "internal/state", "internal/tomlblock"},
	"internal/importing":  {"internal/clients", "internal/config", "internal/paths", "internal/state", "internal/valuemodel"}, // what becomes of the servers of clients, and the changes that follow
	"internal/record":     {"internal/excerpt", "internal/jsonrpc", "internal/state"},
	"internal/dashboard":  {"internal/age", "internal/record"},
	"internal/secret":     {"internal/excerpt", "internal/jsonrpc"},
	"internal/tune":       {"internal/age", "internal/predict", "internal/record", "internal/replay", "internal/valuemodel"},
	"internal/plan":       {"internal/age", "internal/excerpt", "internal/jsonrpc", "internal/nearest", "internal/schedule", "internal/schema"},
	"internal/excerpt":    {"internal/jsonrpc"},
	"internal/schema":     {"internal/excerpt", "internal/jsonrpc"},
	"internal/deliver":    {"internal/call", "internal/jsonrpc", "internal/valuemodel"},
	"internal/limit":      {},
	"internal/valkey":     {"internal/age", "internal/call", "internal/dedup", "internal/limit", "internal/nearest"}, // what several replicas share
	"internal/classify":   {},                                                                                        // does this one call only read: command lines, what git is set up to run, SQL statements
	"internal/valuemodel": {"internal/call", "internal/classify", "internal/nearest"},
	"internal/call":       {},
	"internal/enrich":     {"internal/call", "internal/schedule", "internal/valuemodel"},
	"internal/predict":    {"internal/call", "internal/enrich", "internal/jsonrpc", "internal/schema", "internal/secret", "internal/valuemodel"}, // what was called -> exact calls worth making early
	"internal/replay": {
		"internal/age", "internal/call", "internal/dedup", "internal/enrich", "internal/jsonrpc", "internal/predict", "internal/record", "internal/speculate",
		"internal/valuemodel",
	},
	"internal/schedule": {},
	"internal/upstream": {"internal/age", "internal/guard", "internal/jsonrpc", "internal/revision", "internal/secret"},
	"internal/guard":    {}, // the process that outlives the proxy; apart so that it links none of the rest
	"internal/revision": {"internal/jsonrpc"},
	"internal/jsonrpc":  {},
	"internal/config": { // the sections of the file are types of the packages that they configure
		"internal/budget", "internal/dedup", "internal/front", "internal/limit", "internal/nearest", "internal/paths", "internal/plan",
		"internal/speculate", "internal/tomlblock", "internal/valuemodel",
	},
	"internal/paths":         {},                                                         // where a user's configuration and state are; apart so that the small program links none of the rest
	"internal/daemon":        {"internal/age", "internal/jsonrpc", "internal/paths"},     // how clients find the process that serves them all, and what they say to each other
	"internal/hook":          {"internal/classify", "internal/daemon", "internal/paths"}, // what clients report of themselves, and whether a folder is quiet by it
	"internal/state":         {},
	"internal/tomlblock":     {},
	"internal/toolsearch":    {"internal/jsonrpc", "internal/nearest"}, // which tools a request in plain words may mean
	"internal/demo":          {"internal/jsonrpc", "internal/record"},
	"internal/bubble":        {},                   // fake time for tests, around a fault of the race detector; it is not imported outside tests
	"internal/mutant":        {},                   // takes a rule out of the code, so that its test can be shown to fail; it is not imported outside tests
	"internal/mcptest":       {"internal/jsonrpc"}, // real small MCP servers for tests; it is not imported outside them and tools
	"internal/mcptest/child": {"internal/mcptest"}, // one of them as a program, which starts sooner than a test binary
}

// fixed are the names that the program was ordered with.
var fixed = []string{
	"go.mod", "cmd/mcpschedd/", "internal/proxy/", "internal/valuemodel/", "internal/enrich/", "internal/speculate/", "internal/dedup/",
	"configs/pipeline_config.toml", "Makefile", "README.md",
}

// ordered are the modules that the program was ordered to be built with.
var ordered = []string{
	"github.com/mark3labs/mcp-go", "github.com/BurntSushi/toml", "github.com/hashicorp/golang-lru/v2", "golang.org/x/time",
	"github.com/fsnotify/fsnotify",
}

func TestLayout(t *testing.T) {
	packages := listed(t)
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module())
		if p.ImportPath+"/" == module() {
			continue // this folder: only tests
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s: not in the table; say what it owns that no other does, and add it", name)
		}
		for _, imported := range p.Imports {
			if rest, ours := strings.CutPrefix(imported, module()); ours && !slices.Contains(may, rest) {
				t.Errorf("package %s imports %s: the table does not allow it", name, rest)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(allowed)) {
		if !slices.ContainsFunc(packages, func(p listedPackage) bool { return p.ImportPath == module()+name }) {
			t.Errorf("package %s: in the table, and does not exist", name)
		}
		t.Logf("%2d of our packages may be imported by %s", len(allowed[name]), name)
	}
}

// The folders and files of the order are where it put them.
func TestLayoutIsAsOrdered(t *testing.T) {
	for _, name := range fixed {
		file, isDir := strings.CutSuffix(name, "/")
		if is, err := os.Stat(filepath.FromSlash(file)); err != nil || is.IsDir() != isDir {
			t.Errorf("%s: got %v, want it to exist", name, err)
		}
		if isDir && !slices.ContainsFunc(listed(t), func(p listedPackage) bool { return p.ImportPath == module()+file && len(p.GoFiles) > 0 }) {
			t.Errorf("%s: has no Go code that is not a test", name)
		}
	}
}

// What the program does with the modules of the order it does with them, and not in
// tests alone.
func TestLayoutUsesWhatWasOrdered(t *testing.T) {
	in := make(map[string]bool) // what the program is built of
	for _, p := range listed(t) {
		if p.ImportPath == module()+"cmd/mcpschedd" {
			for _, d := range p.Deps {
				in[d] = true
			}
			in[p.ImportPath] = true
		}
	}
	for _, want := range ordered {
		var by []string
		for _, p := range listed(t) {
			if in[p.ImportPath] && slices.ContainsFunc(p.Imports, func(i string) bool { return i == want || strings.HasPrefix(i, want+"/") }) {
				by = append(by, strings.TrimPrefix(p.ImportPath, module()))
			}
		}
		if len(by) == 0 {
			t.Errorf("%s: imported by no code of the program", want)
		}
		t.Logf("%s: imported by %s", want, strings.Join(by, ", "))
	}
}

// listedPackage is what go list knows of a package of the program; Imports and Deps
// are those of its code without its tests.
type listedPackage struct {
	ImportPath             string
	GoFiles, Imports, Deps []string
}

// listOnce asks go list for all packages of the program.
var listOnce = sync.OnceValues(func() (packages []listedPackage, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,GoFiles,Imports,Deps", "./...").Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p listedPackage
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
})

func listed(t *testing.T) []listedPackage {
	t.Helper()
	packages, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// Fake time is entered through bubble alone, which keeps the race detector from a fault of its own.
func TestLayoutOfBubbles(t *testing.T) {
	const own = "internal/bubble/bubble.go"
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (name == "bin" || name == ".git") { // each build and commit would change them, and have the go command repeat the test
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(name) != ".go" || filepath.ToSlash(name) == own {
			return err
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte("synctest"+".Test(")) {
			t.Errorf("%s: enters fake time by itself, want it to call bubble.Test", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
