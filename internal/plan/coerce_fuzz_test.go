package plan_test

import (
	"encoding/json"
	"math/big"
	"testing"

	"mcpschedd/internal/plan"
)

// FuzzNumbers compares with fractions of whole numbers where those can be written out.
func FuzzNumbers(f *testing.F) {
	f.Add("1", "1.0")
	f.Add("-1e10", "-10000000000.0001")
	f.Add("0.0e9", "-0")
	f.Add("1e99999999999", "1e-99999999999")
	f.Fuzz(func(t *testing.T, a, b string) {
		if !number(a) || !number(b) {
			return
		}
		got, ok := plan.CompareNumbers(a, b)
		if !ok {
			return // of an exponent of more than a hundred digits
		}
		if back, _ := plan.CompareNumbers(b, a); back != -got {
			t.Errorf("%s and %s: %d, and %d the other way round", a, b, got, back)
		}
		x, y := rational(a), rational(b)
		if x == nil || y == nil {
			return
		}
		if want := x.Cmp(y); got != want {
			t.Errorf("%s and %s: got %d, want %d", a, b, got, want)
		}
		if got, want := plan.WholeNumber(a), x.IsInt(); got != want {
			t.Errorf("%s: whole %t, want %t", a, got, want)
		}
	})
}

func number(s string) bool {
	return s != "" && (s[0] == '-' || '0' <= s[0] && s[0] <= '9') && s[len(s)-1] >= '0' && json.Valid([]byte(s))
}

// rational is what a number is worth; nil if it is not written out.
func rational(s string) *big.Rat {
	if f, _, err := big.ParseFloat(s, 10, 10, big.ToZero); err != nil || len(s) > 300 || f.MantExp(nil) > 3000 || f.MantExp(nil) < -3000 {
		return nil
	}
	r, _ := new(big.Rat).SetString(s)
	return r
}
