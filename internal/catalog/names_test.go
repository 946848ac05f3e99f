package catalog_test

import (
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/upstream"
)

func newCatalog() *catalog.Catalog { return catalog.New(slog.New(slog.DiscardHandler), nil, nil) }

// viewOf returns what a session sees of upstreams with the given names.
func viewOf(c *catalog.Catalog, ups []string, prefix, never bool) *catalog.View {
	p := &catalog.Policy{Prefix: prefix}
	if never {
		p.NameStyle = "never"
	}
	for _, l := range leasesOn(ups...) {
		p.Members = append(p.Members, l.Member)
	}
	return &catalog.View{Catalog: c, Policy: p}
}

func leasesOn(ups ...string) (leases catalog.Leases) {
	for _, name := range ups {
		leases = append(leases, &catalog.Lease{Member: &catalog.Member{Upstream: catalog.Upstream{Spec: upstream.Spec{Name: name}}}})
	}
	return leases
}

// show returns the name under which a tool of one of ups is shown.
func show(c *catalog.Catalog, ups []string, prefix, never bool, up, tool string) string {
	return viewOf(c, ups, prefix, never).NameOf(upstream.Tools, catalog.Target{Upstream: up, Name: tool})
}

// Every shown name stands for exactly one tool, and is never given to another one, whatever the
// configuration becomes.
func FuzzNames(f *testing.F) {
	f.Add(uint64(1), "read b__read", "read", uint8(0))
	f.Add(uint64(7), "a__b a_ __ _", "a b__a", uint8(1))
	f.Add(uint64(9), "read \x00 é", "b__read a__read", uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, first, second string, style uint8) {
		tools := map[string][]string{"a": unique(first), "b": unique(second)}
		c := newCatalog()
		bound := make(map[string][2]string) // name → target it was shown for
		random := rand.New(rand.NewPCG(seed, 1))
		for range 6 {
			ups := [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {}}[random.IntN(5)]
			prefix := []bool{len(ups) != 1, true, false}[style%3]
			never := style%3 == 2
			for _, up := range ups {
				for _, tool := range tools[up] {
					name := show(c, ups, prefix, never, up, tool)
					target := [2]string{up, tool}
					if name == "" {
						// A tool has no name only if all its possible names have belonged to other
						// tools.
						_, plain := bound[tool]
						_, prefixed := bound[up+"__"+tool]
						if !plain && (never || !prefix) || !prefixed && !never {
							t.Errorf("%s/%q has no name", up, tool)
						}
						continue
					}
					if old, taken := bound[name]; taken && old != target {
						t.Errorf("%q was %q and is now %q", name, old, target)
					}
					bound[name] = target
				}
			}
			for name, target := range bound {
				v := viewOf(c, ups, prefix, never)
				v.Leases = leasesOn("a", "b") // a name of an upstream that has been removed stays bound
				if got, l := v.Resolve(upstream.Tools, name); l == nil || got.Upstream != target[0] || got.Name != target[1] {
					t.Errorf("%q leads to %q (%v), want %q", name, got, l != nil, target)
				}
			}
		}
	})
}

// An upstream with too many names gets no more, and its tools keep those that they have.
func TestNamesAreBounded(t *testing.T) {
	c, both := newCatalog(), []string{"a", "b"}
	show(c, both, true, false, "a", "first")
	for i := 0; show(c, both, true, false, "a", strconv.Itoa(i)) != ""; i++ {
		if i > 1<<20 {
			t.Fatal("the names are not bounded")
		}
	}
	if got := show(c, []string{"a"}, false, false, "a", "first"); got != "a__first" {
		t.Errorf("got %q, want the name that the tool has", got)
	}
	if got := show(c, both, true, false, "b", "first"); got != "b__first" {
		t.Errorf("another upstream: got %q, want a name", got)
	}
}

func unique(words string) []string {
	var out []string
	seen := make(map[string]bool)
	for w := range strings.SplitSeq(words, " ") {
		if w != "" && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	return out
}
