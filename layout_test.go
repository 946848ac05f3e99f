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
		"internal/clients", "internal/config", "internal/dashboard", "internal/dedup", "internal/demo", "internal/enrich", "internal/events", "internal/guard", "internal/limit",
		"internal/metrics", "internal/nearest", "internal/plan", "internal/proxy", "internal/replay", "internal/secret", "internal/speculate",
		"internal/state", "internal/telemetry", "internal/tracing", "internal/tune", "internal/upstream", "internal/valuemodel",
	},
	"cmd/mcpschedd-small": {"internal/guard"},
	"internal/proxy": {
		"internal/age", "internal/call", "internal/dedup", "internal/deliver", "internal/enrich", "internal/events", "internal/excerpt", "internal/forecast",
		"internal/jsonrpc", "internal/limit", "internal/plan", "internal/revision", "internal/schema", "internal/speculate", "internal/telemetry",
		"internal/upstream", "internal/valuemodel",
	},
	"internal/age":       {}, // how old something is by both clocks: the one place that minds that a machine sleeps
	"internal/dedup":     {"internal/age", "internal/call"},
	"internal/speculate": {"internal/call"},
	"internal/forecast":  {"internal/call", "internal/enrich", "internal/jsonrpc", "internal/predict", "internal/schema", "internal/valuemodel"},
	"internal/nearest":   {},
	"internal/clients":   {"internal/secret"},
	"internal/events":    {"internal/jsonrpc"},
	"internal/telemetry": {"internal/events"},
	"internal/metrics":   {"internal/telemetry"},
	"internal/tracing":   {"internal/events", "internal/telemetry"},
	"internal/dashboard": {"internal/telemetry"},
	"internal/secret":    {"internal/jsonrpc"},
	"internal/tune": {
		"internal/call", "internal/enrich", "internal/events", "internal/forecast", "internal/jsonrpc", "internal/predict",
		"internal/replay", "internal/valuemodel",
	},
	"internal/plan":       {"internal/excerpt", "internal/jsonrpc", "internal/nearest", "internal/schedule", "internal/schema"},
	"internal/excerpt":    {"internal/jsonrpc"},
	"internal/schema":     {"internal/jsonrpc"},
	"internal/deliver":    {"internal/call", "internal/jsonrpc", "internal/valuemodel"},
	"internal/limit":      {"internal/age"},
	"internal/valuemodel": {"internal/call", "internal/nearest"},
	"internal/call":       {},
	"internal/enrich":     {"internal/call", "internal/schedule", "internal/valuemodel"},
	"internal/predict":    {},
	"internal/replay": {
		"internal/age", "internal/call", "internal/dedup", "internal/enrich", "internal/forecast", "internal/jsonrpc", "internal/speculate",
		"internal/valuemodel",
	},
	"internal/schedule":           {},
	"internal/upstream":           {"internal/guard", "internal/jsonrpc", "internal/revision", "internal/secret"},
	"internal/guard":              {}, // the process that outlives the proxy; apart so that it links none of the rest
	"internal/revision":           {"internal/jsonrpc"},
	"internal/jsonrpc":            {},
	"internal/config":             {"internal/nearest"},
	"internal/state":              {},
	"internal/demo":               {},
	"internal/dashboard/dashtest": {"internal/events", "internal/telemetry"}, // made-up sessions for tests of the page; nobody may import it outside them
	"internal/mcptest":            {"internal/jsonrpc"},                      // real small MCP servers for tests; nobody may import it outside them
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
