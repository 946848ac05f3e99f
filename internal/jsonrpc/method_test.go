package jsonrpc_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// The table of known methods answers each name with itself and without an
// allocation, also where the slashes are escaped.
func TestKnownMethods(t *testing.T) {
	source, err := os.ReadFile("method.go")
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`case "([a-z].*)":`).FindAllSubmatch(source, -1)
	if len(known) < 30 {
		t.Fatalf("got %d methods, want all of them", len(known))
	}
	for _, match := range known {
		want := string(match[1])
		for _, written := range []string{want, strings.ReplaceAll(want, "/", `\/`)} {
			raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"%s"}`, written)
			got := ""
			allocs := testing.AllocsPerRun(10, func() {
				m, err := jsonrpc.Parse(raw)
				if err != nil {
					t.Fatal(err)
				}
				got = m.Method
			})
			if got != want || allocs != 0 {
				t.Errorf("%s: got %s and %v allocations, want the name and none", raw, got, allocs)
			}
		}
	}
}
