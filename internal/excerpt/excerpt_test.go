package excerpt_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/excerpt"
)

func TestTry(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"total":134,"items":[`)
	for i := range 134 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"title":"title %d","body":"%s"}`, i, i, strings.Repeat("word ", 50))
	}
	b.WriteString(`],"text":"` + strings.Repeat("long text ", 1000) + `","n":1}`)
	for _, n := range []int{10, 100, 300, 1000, 10000} {
		out, left := excerpt.Cut([]byte(b.String()), excerpt.Limit{Tokens: n})
		t.Logf("%d: %d %.300s\n%+v", n, len(out), out, left)
	}
}
