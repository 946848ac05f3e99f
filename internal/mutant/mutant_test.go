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
	plain = `package shop

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
	root := t.TempDir()
	write := func(name, text string) (file string) {
		file = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	write("go.mod", "module market\n")
	files := map[string]string{"before": write("internal/before/till.go", plain), "after": write("internal/after/till.go", moved)}
	t.Chdir(filepath.Join(root, "internal", "before"))
	for _, tt := range []struct {
		name string
		cut  Cut
		shop string
		want []string // parts of the changed code; nil if the rule is not found
	}{
		{"a call", Cut{Call: "till.add", Under: []string{"till.Sell"}, Becomes: Nothing}, "before", []string{"if false { t.add(n) } // the sale", "{ t.add(-n) }"}},
		{"a call that has moved", Cut{Call: "till.add", Under: []string{"till.Sell"}, Becomes: Nothing}, "after", []string{"if false { (t).\n\t\t\tadd(amount) }", "{ t.add(-n) }"}},
		{"all calls but some", Cut{Call: "till.add", Except: []string{"till.Refund"}, Becomes: "$x.add(2 * $1)"}, "after", []string{"(t).add(2 * amount)", "{ t.add(-n) }"}},
		{"a comparison", Cut{Compare: "till.sum", Becomes: False}, "before", []string{"return (t.sum >= most && false)"}},
		{"one that is turned round", Cut{Compare: "till.sum", Becomes: True}, "after", []string{"((most <=\n\tt.sum || true))"}},
		{"a field that is set", Cut{Set: "till.sum", Becomes: "$x.sum = 7"}, "after", []string{"drawer.sum = 7"}},
		{"a field that is read", Cut{Read: "till.sum", Under: []string{"till.Full"}, Becomes: "($& / 2)"}, "before", []string{"return (t.sum / 2) >= most"}},
		{"a rule that has gone", Cut{Call: "till.remove", Becomes: Nothing}, "before", nil},
		{"a rule that stands elsewhere", Cut{Call: "till.add", Under: []string{"till.Full"}, Becomes: Nothing}, "before", nil},
		{"a place that has gone", Cut{Call: "till.add", Under: []string{"till.Steal"}, Becomes: Nothing}, "before", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cut.In = tt.shop
			m := Mutant{Name: tt.name, Cuts: []Cut{tt.cut}}
			changed, err := m.apply()
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("got %v", err)
			}
			for got := range slices.Values(tt.want) {
				if !strings.Contains(string(changed[files[tt.shop]]), got) {
					t.Errorf("got\n%s\nwant %q in it", changed[files[tt.shop]], got)
				}
			}
		})
	}
}
