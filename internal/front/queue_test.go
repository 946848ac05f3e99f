package front_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
)

// Without a stream, messages are queued up to the limit. Further ones are refused.
func TestQueueWithoutStream(t *testing.T) {
	for _, test := range []struct {
		name             string
		sent, fill, kept int
	}{
		{"few", 256, 0, 256},
		{"too many", 40, 100 << 10, 11},
		{"large ones", 2, 2 << 20, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := front.NewQueue()
			var want []string
			for i := range test.sent {
				note := fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"i":%d,"fill":%q}}`, i, strings.Repeat("x", test.fill))
				if err := q.Send([]byte(note)); (err == nil) != (i < test.kept) {
					t.Errorf("notification %d: %v", i, err)
				}
				if i < test.kept {
					want = append(want, note)
				}
			}
			const question = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
			buffer := []byte(question)
			if err := q.Answer(buffer); (err == nil) != (test.kept == test.sent) {
				t.Errorf("question: %v", err)
			}
			clear(buffer) // the queue has a copy
			if test.kept == test.sent {
				want = append(want, question)
			}
			w := httptest.NewRecorder()
			if err := q.Drain(w); err != nil {
				t.Fatal(err)
			}
			next := mcptest.EventReader(w.Body)
			for _, want := range want {
				if got, err := next(); err != nil || got != want {
					t.Fatalf("got %.80s (%v), want %.80s", got, err, want)
				}
			}
			if got, err := next(); err == nil {
				t.Errorf("got %.80s, want the end", got)
			}
			if err := q.Send([]byte(question)); err == nil {
				t.Error("a closed queue took a message")
			}
		})
	}
}
