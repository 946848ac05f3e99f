package mutant

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The same rule, before and after its code was moved.
const (
	before1 = `package shop

import "sync"

type till struct {
	mu  sync.Mutex
	sum int
}

func (t *till) add(n int) { t.sum += n }

func (t *till) Sell(n int) {
	t.add(n) // the sale
}

func (t *till) Refund(n int) { t.add(-n) }

func (t *till) Full(most int) bool { return t.sum >= most }
`
	moved = `package shop

import "sync"

type till struct{ mu sync.Mutex; sum int }

func (t *till) Sell(n int) { func() { t.book(n) }() }

func (t *till) book(amount int) {
	if amount > 0 {
		(t).
			add(amount)
	}
}

func (t *till) Refund(n int) { t.add(-n) }

func (drawer *till) add(n int) { drawer.sum += n }

func (t *till) Full(most int) bool { return (most <=
	t.sum) }
`
)

func TestCuts(t *testing.T) {
	for _, tt := range []struct {
		name string
		cut  Cut
		code string
		want []string // parts of the changed code; nil if the rule is not found
	}{
		{"a call", Cut{Call: "till.add", Under: []string{"till.Sell"}, Becomes: Nothing}, before1, []string{"if false { t.add(n) } // the sale", "{ t.add(-n) }"}},
		{"a call that has moved", Cut{Call: "till.add", Under: []string{"till.Sell"}, Becomes: Nothing}, moved, []string{"if false { (t).\n\t\t\tadd(amount) }", "{ t.add(-n) }"}},
		{"all calls but some", Cut{Call: "till.add", Except: []string{"till.Refund"}, Becomes: "$x.add(2 * $1)"}, moved, []string{"(t).add(2 * amount)", "{ t.add(-n) }"}},
		{"a comparison", Cut{Compare: "till.sum", Becomes: False}, before1, []string{"return (t.sum >= most && false)"}},
		{"one that is turned round", Cut{Compare: "till.sum", Becomes: True}, moved, []string{"((most <=\n\tt.sum || true))"}},
		{"a field that is set", Cut{Set: "till.sum", Becomes: "$x.sum = 7"}, moved, []string{"drawer.sum = 7"}},
		{"a field that is read", Cut{Read: "till.sum", Under: []string{"till.Full"}, Becomes: "($& / 2)"}, before1, []string{"return (t.sum / 2) >= most"}},
		{"a rule that has gone", Cut{Call: "till.remove", Becomes: Nothing}, before1, nil},
		{"a rule that stands elsewhere", Cut{Call: "till.add", Under: []string{"till.Full"}, Becomes: Nothing}, before1, nil},
		{"a place that has gone", Cut{Call: "till.add", Under: []string{"till.Steal"}, Becomes: Nothing}, before1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, "internal", "shop", "till.go")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(tt.code), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module market\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Chdir(root)
			loaded.Delete("shop")
			tt.cut.In = "shop"
			m := Mutant{Name: tt.name, Cuts: []Cut{tt.cut}}
			changed, err := m.apply()
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("got %v", err)
			}
			for got := range slices.Values(tt.want) {
				if !strings.Contains(string(changed[file]), got) {
					t.Errorf("got\n%s\nwant %q in it", changed[file], got)
				}
			}
		})
	}
}
