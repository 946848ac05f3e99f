package front_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/front"
)

func TestQueueDropsOldestNotifications(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"n","params":{"i":%d,"fill":%q}}`
	tests := []struct {
		name       string
		sent, fill int
		first      int // the oldest notification that is kept
	}{
		{"few", 256, 0, 0},
		{"too many", 300, 0, 44},
		{"too large", 40, 100 << 10, 30},
		{"one that is too large alone", 2, 2 << 20, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			q := front.NewQueue(slog.New(slog.NewTextHandler(&log, nil)))
			const question = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
			if err := q.Send([]byte(question)); err != nil {
				t.Fatal(err)
			}
			for i := range test.sent {
				if err := q.Send(fmt.Appendf(nil, note, i, large(test.fill))); err != nil {
					t.Fatal(err)
				}
			}
			w := httptest.NewRecorder()
			if err := q.Drain(w); err != nil {
				t.Fatal(err)
			}
			next := eventReader(w.Body)
			if got, err := next(); err != nil || got != question {
				t.Fatalf("got %.80s (%v), want the question first", got, err)
			}
			for i := test.first; i < test.sent; i++ {
				want := fmt.Sprintf(`"params":{"i":%d,`, i)
				if got, err := next(); err != nil || !strings.Contains(got, want) {
					t.Fatalf("got %.80s (%v), want %s", got, err, want)
				}
			}
			if got, err := next(); err == nil {
				t.Errorf("got %.80s, want the end", got)
			}
			if got, want := strings.Count(log.String(), "dropped"), min(test.first, 1); got != want {
				t.Errorf("logged %d times, want %d", got, want)
			}
			if err := q.Send([]byte(question)); err == nil {
				t.Error("a closed queue took a message")
			}
		})
	}
}

func TestQueueRefusesQuestionsNobodyReads(t *testing.T) {
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

// A client that comes back after many small answers gets them in time proportional to
// their number.
func TestQueueOfManyAnswersIsTaken(t *testing.T) {
	drained := func(answers int) time.Duration {
		q := front.NewQueue(slog.New(slog.DiscardHandler))
		for i := range answers {
			if err := q.Answer(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, i)); err != nil {
				t.Fatal(err)
			}
		}
		w := httptest.NewRecorder()
		began := time.Now()
		if err := q.Drain(w); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if got := bytes.Count(w.Body.Bytes(), []byte("data: ")); got != answers {
			t.Errorf("got %d answers, want %d", got, answers)
		}
		return took
	}
	few, many := drained(5_000), drained(50_000)
	for range 4 { // of several runs the fastest: other processes take time, too
		few, many = min(few, drained(5_000)), min(many, drained(50_000))
		if many < 30*few {
			return
		}
	}
	t.Errorf("50000 answers took %v, 5000 took %v", many, few)
}
