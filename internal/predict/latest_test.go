package predict

import (
	"fmt"
	"testing"
)

// What a session has called is still known after thousands of other calls: what was met
// longest ago goes, not what comes.
func TestLatest(t *testing.T) {
	all := latest[int]()
	for i := range 3 * maxAsked {
		all.Add(seed.str(fmt.Sprint(i)), i)
	}
	if _, first := all.Get(seed.str("0")); first || all.Len() != maxAsked {
		t.Errorf("the first of %d is known: %v, %d are kept", 3*maxAsked, first, all.Len())
	}
	if n, _ := all.Get(seed.str(fmt.Sprint(3*maxAsked - 1))); n != 3*maxAsked-1 {
		t.Errorf("got %d of the last", n)
	}
}
