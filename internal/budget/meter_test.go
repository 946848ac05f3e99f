package budget_test

import (
	"fmt"
	"testing"

	"mcpschedd/internal/budget"
)

func TestMeter(t *testing.T) {
	m := budget.NewMeter()
	want := func(kind string, bytes, tokens int) {
		t.Helper()
		if got := m.Tokens(kind, bytes); got != tokens {
			t.Errorf("%d bytes of %s: got %d tokens, want %d", bytes, kind, got, tokens)
		}
	}
	want("code", 401, 101) // nothing was counted yet
	m.Observe("code", 300, 100)
	m.Observe("code", 0, 7)
	want("code", 900, 300)
	want("prose", 900, 300) // as any other
	m.Observe("prose", 900, 100)
	want("prose", 900, 100)
	want("code", 900, 300)
	for range 10 { // a tool that begins to answer in another language
		m.Observe("code", 1<<20, 1<<19)
	}
	want("code", 1000, 500)
	for i := range 5000 { // more than are told apart
		m.Observe(fmt.Sprint(i), 100, 100)
	}
	want("prose", 900, m.Tokens("new", 900))
}
