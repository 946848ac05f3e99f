package front_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpschedd/internal/front"
)

// Without a stream, notifications are queued up to the limit. Further ones are dropped, which
// is logged once. Messages with an id are kept.
func TestQueueDropsNotifications(t *testing.T) {
	for _, test := range []struct {
		name             string
		sent, fill, kept int
	}{
		{"few", 256, 0, 256},
		{"too many", 40, 100 << 10, 11},
		{"large ones", 2, 2 << 20, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			q := front.NewQueue(slog.New(slog.NewTextHandler(&log, nil)))
			var want []string
			for i := range test.sent {
				note := fmt.Sprintf(`{"jsonrpc":"2.0","method":"n","params":{"i":%d,"fill":%q}}`, i, large(test.fill))
				if err := q.Send([]byte(note)); (err == nil) != (i < test.kept) {
					t.Errorf("notification %d: %v", i, err)
				}
				if i < test.kept {
					want = append(want, note)
				}
			}
			const question = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
			if err := q.Send([]byte(question)); err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			if err := q.Drain(w); err != nil {
				t.Fatal(err)
			}
			next := eventReader(w.Body)
			for _, want := range append(want, question) {
				if got, err := next(); err != nil || got != want {
					t.Fatalf("got %.80s (%v), want %.80s", got, err, want)
				}
			}
			if got, err := next(); err == nil {
				t.Errorf("got %.80s, want the end", got)
			}
			if got, want := strings.Count(log.String(), "dropped"), min(test.sent-test.kept, 1); got != want {
				t.Errorf("logged %d times, want %d", got, want)
			}
			if err := q.Send([]byte(question)); err == nil {
				t.Error("a closed queue took a message")
			}
		})
	}
}

func TestQueueRefusesUnreadRequests(t *testing.T) {
	q := front.NewQueue(slog.New(slog.DiscardHandler))
	question := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"fill":%q}}`, large(1<<20))
	for i := range 20 {
		if err := q.Send(question); err != nil {
			if i < 8 {
				t.Errorf("refused after %d MiB: %v", i, err)
			}
			return
		}
	}
	t.Error("20 MiB of questions wait and no end")
}
