package upstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestTail(t *testing.T) {
	var many, last []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("line %d", i))
	}
	last = many[len(many)-tailLines:]
	wide := strings.Repeat("x", tailWidth)
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                          {"", nil},
		"blank lines":                      {"\n \r\n\t\nend\n\n", []string{"end"}},
		"indented, CRLF":                   {"Error\r\n  at x\r\n", []string{"Error", "  at x"}},
		"no last line end":                 {"a\nb", []string{"a", "b"}},
		"the last 50":                      {strings.Join(many, "\n") + "\n", last},
		"the last 50, one without its end": {strings.Join(many, "\n"), last},
		"wide":                             {wide + "yyy\nb\n", []string{wide, "b"}},
		"wide part":                        {wide + "yyy", []string{wide}},
		"no UTF-8":                         {"a\xffb\n", []string{"a\uFFFDb"}},
		"cut rune":                         {wide[1:] + "é\n", []string{wide[1:] + "\uFFFD"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var whole, bytewise tail
			whole.readFrom(strings.NewReader(test.text))
			if diff := cmp.Diff(test.want, whole.list()); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			bytewise.readFrom(iotest.OneByteReader(strings.NewReader(test.text)))
			if diff := cmp.Diff(test.want, bytewise.list()); diff != "" {
				t.Errorf("read by bytes: want -, got +:\n%s", diff)
			}
		})
	}
}
