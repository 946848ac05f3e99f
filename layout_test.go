package mcpschedd_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "mcpschedd/"

// allowed says which of our packages each package may import: the direction in
// which the house is built. A package that is not in it may not exist.
var allowed = map[string][]string{
	"cmd/mcpschedd": {
		"internal/config", "internal/dedup", "internal/demo", "internal/limit", "internal/proxy",
		"internal/state", "internal/upstream", "internal/valuemodel",
	},
	"internal/proxy": {
		"internal/call", "internal/dedup", "internal/jsonrpc", "internal/limit", "internal/revision",
		"internal/state", "internal/upstream", "internal/valuemodel",
	},
	"internal/dedup":      {"internal/call"},
	"internal/limit":      {},
	"internal/valuemodel": {"internal/call"},
	"internal/call":       {},
	"internal/enrich":     {"internal/call", "internal/schedule", "internal/valuemodel"},
	"internal/predict":    {},
	"internal/replay":     {"internal/jsonrpc", "internal/predict"},

	"internal/replay/measure": {"internal/predict", "internal/replay"}, // predict beside the floor on recorded sessions
	"internal/schedule":       {},
	"internal/upstream":       {"internal/jsonrpc", "internal/revision"},
	"internal/revision":       {"internal/jsonrpc"},
	"internal/jsonrpc":        {},
	"internal/config":         {},
	"internal/state":          {},
	"internal/demo":           {},
	"internal/bench":          {},
	"internal/compare":        {},
	"internal/mcptest":        {"internal/jsonrpc"}, // real small MCP servers for tests; nobody may import it outside them
}

func TestLayout(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		if p.ImportPath+"/" == module {
			continue // this folder: only this test
		}
		may, known := allowed[name]
		if !known {
			t.Errorf("package %s: not in the table; say what it owns that no other does, and add it", name)
		}
		for _, imported := range p.Imports {
			if rest, ours := strings.CutPrefix(imported, module); ours && !slices.Contains(may, rest) {
				t.Errorf("package %s imports %s: the table does not allow it", name, rest)
			}
		}
	}
}
