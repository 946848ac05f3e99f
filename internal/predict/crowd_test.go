package predict_test

import (
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// The many candidates for one tool, which are likelier, leave room for those for others.
func TestLongListsLeaveRoomForOtherTools(t *testing.T) {
	rules := []valuemodel.Rule{reading("list_*"), reading("get_*")}
	tools := resolve(t, hub, rules, "list_a", "", "list_b", "", "list_c", "", "get_a", "", "get_b", "", "get_c", "")
	m := predict.New(predict.Options{Tool: tools.tool, Learn: true})
	const sessions, size = 40, 24
	for i := range sessions {
		p := play(m)
		id := func(list string, page, n int) string { return fmt.Sprintf(`{"id":"%s-%d-%d-%d"}`, list, i, page, n) }
		for page, list := range []string{"b", "c", "a", "a", "a", "a"} {
			var ids []string
			for n := range size {
				ids = append(ids, id(list, page, n))
			}
			p.call("list_"+list, fmt.Sprintf(`{"page":%d}`, page), `{"items":[`+strings.Join(ids, ",")+`]}`)
		}
		all := p.candidates()
		if b, c := len(made(all, "get_b")), len(made(all, "get_c")); i == sessions-1 && min(b, c) < size {
			t.Errorf("got %d candidates for get_b and %d for get_c, want %d each", b, c, size)
		}
		p.call("get_b", id("b", 0, size-1-i%8), "{}")
		p.call("get_c", id("c", 1, size-1-i%8), "{}")
		for n := range 12 {
			p.call("get_a", id("a", 2+n%4, (n*3+i)%size), "{}")
			p.turn-- // these calls are of one turn
		}
		p.s.End()
	}
}
