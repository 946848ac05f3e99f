package nearest_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"mcpschedd/internal/nearest"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []string
		want string
	}{
		{"get_isue", []string{"get_issue", "get_issues", "list"}, "get_issue"},
		{"gte_issue", []string{"get_issue"}, "get_issue"},
		{"hbu", []string{"hub"}, "hub"},
		{"GET-ISSUE", []string{"get_issue"}, "get_issue"},
		{"getissue", []string{"set_issue", "get_issue"}, "get_issue"},
		{"get_issue", []string{"list", "github__get_issue"}, "github__get_issue"},
		{"mcp__proxy__get_issue", []string{"get_issue"}, "get_issue"},
		{"mcp__mcpschedd__stub__echo", []string{"web__echo", "stub__echo", "echo"}, "stub__echo"}, // as a client calls it
		{"mcp__mcpschedd__stub__echo", []string{"web__echo", "wiki__echo"}, ""},
		{"mcp__stub__echo", []string{"web__echo", "wiki__echo", "echo"}, "echo"},
		{"mcp_x___echo", []string{"_echo", "web__echo", "wiki__echo"}, "_echo"},
		{strings.Repeat("_", 600) + "__echo", []string{"echo"}, "echo"},
		{"stub__", []string{"a__b", "c__b"}, ""},
		{strings.Repeat("x", 128) + "__echo", []string{"echo"}, "echo"},
		{"gitlab__get_issue", []string{"github__get_issue"}, "github__get_issue"},
		{"get_issue", []string{"github__get_issue", "gitlab__get_issue"}, ""}, // the two differ only in the server
		{"budget", []string{"budget_tokens", "steps"}, "budget_tokens"},
		{"step", []string{"steps", "stop"}, "steps"},
		{"zz", []string{"z"}, "z"},
		{"d", []string{"e", "a", "de"}, "de"},
		{"d", []string{"e", "a", "def"}, ""},
		{"teleport", []string{"get_issue", "te"}, ""},
		{"", []string{"a"}, ""},
		{"a", nil, ""},
		{"größe", []string{"grösse", "Größen"}, "Größen"},
	} {
		if got := nearest.To(c.name, c.all); got != c.want {
			t.Errorf("%.40q of %q: got %q, want %q", c.name, c.all, got, c.want)
		}
	}
}

func TestQuestion(t *testing.T) {
	for name, want := range map[string]string{"get_isue": `; did you mean "get_issue"?`, "teleport": ""} {
		if got := nearest.Question(name, []string{"get_issue"}); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// The table gives the distances of the definition.
func TestEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, r.IntN(6))
		for i := range b {
			b[i] = 'a' + byte(r.IntN(3))
		}
		return string(b)
	}
	for range 1000 {
		if a, b := word(), word(); nearest.Edits(a, b) != distance(a, b) {
			t.Fatalf("%q, %q: got %d, want %d", a, b, nearest.Edits(a, b), distance(a, b))
		}
	}
}

// distance computes the optimal string alignment distance by its definition.
func distance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	}
	last := 1
	if a[0] == b[0] {
		last = 0
	}
	d := min(distance(a[1:], b)+1, distance(a, b[1:])+1, distance(a[1:], b[1:])+last)
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		d = min(d, distance(a[2:], b[2:])+1)
	}
	return d
}
