//go:build unix

package guard

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLines(t *testing.T) {
	groups := make(map[int]struct{})
	for _, line := range []string{"+10", "+11", "+12", "-11", "-13", "+0", "-0", "+1", "-1", "", "+", "10x", "+99999999999999999999"} {
		apply(groups, line)
	}
	if diff := cmp.Diff(map[int]struct{}{10: {}, 12: {}}, groups); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}
