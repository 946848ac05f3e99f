package dedup_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/dedup"
)

// TestJoinTimeout: a call waits for a prefetch until its join timeout after the prefetch was sent.
// Other waiters are not affected.
func TestJoinTimeout(t *testing.T) {
	const timeout, sent = 3 * time.Second, 5 * time.Second
	for _, tt := range []struct {
		name    string
		settles time.Duration // after it was sent
		joins   time.Duration // relative to when it was sent
		want    time.Duration // when the call gets its outcome, after the prefetch was sent
		late    bool
	}{
		{"joined before it was sent", 10 * time.Second, -4 * time.Second, timeout, true},
		{"joined after it was sent", 10 * time.Second, time.Second, timeout, true},
		{"answered in time", 2 * time.Second, time.Second, 2 * time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := newStore(t)
				q := query(dedup.Reuse{Pure: true})
				ahead := q
				ahead.Reuse.JoinTimeout = timeout
				var flight *dedup.Flight
				if _, why := s.Prefetch(t.Context(), ahead, func(_ context.Context, f *dedup.Flight) { flight = f }); why != "" {
					t.Fatal(why)
				}
				began := time.Now()
				at := func(after time.Duration, what func()) { time.AfterFunc(sent+after, what) }
				at(0, flight.Sent)
				at(tt.settles, func() { flight.Finish([]byte("1"), false, true) })
				var told time.Duration
				var got dedup.Outcome
				at(tt.joins, func() {
					w := &dedup.Waiter{Done: func(o dedup.Outcome) { got, told = o, time.Since(began)-sent }}
					s.Do(t.Context(), q, w, func(context.Context, *dedup.Flight) { t.Error("it did not join") })
				})
				at(timeout+1, func() {
					if joined := wait(t, s, q).flight == nil; joined == tt.late {
						t.Errorf("a call after the timeout joins or is served: %v", joined)
					}
				})
				time.Sleep(sent + tt.settles + time.Minute)
				synctest.Wait()
				if late := got.Err == dedup.ErrJoinTimeout; late != tt.late || told != tt.want {
					t.Errorf("got %v after %v, want a timeout: %v, after %v", got.Err, told, tt.late, tt.want)
				}
			})
		})
	}
}
