package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/limit"
)

func limited(after time.Duration) limit.Outcome {
	return limit.Outcome{Limited: true, RetryAfter: after, Failed: true}
}

// TestRefused: a 429 reported by another replica has the same effect as one of this process, but
// is not counted. Leave does not report further 429s of concurrent calls, nor those of local
// processes.
func TestRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h, other := limit.New(nil), limit.New(nil)
		first, second, local := enter(t, h, github), enter(t, h, github), enter(t, h, "upstream:files")
		if !first.Leave(limited(7*time.Second)) || second.Leave(limited(7*time.Second)) || local.Leave(limited(0)) {
			t.Error("want only the first 429 of the remote host to be reported")
		}
		other.NoteLimited(github, 7*time.Second)
		wantRefused(t, other, github, limit.ErrCoolingDown)
		time.Sleep(7 * time.Second)
		enter(t, other, github).Leave(good)
		wantRefused(t, other, github, nil)
		if got := other.Stats()[0].Limited; got != 0 {
			t.Errorf("counted %d, want none", got)
		}
	})
}

func TestHalfOpen(t *testing.T) {
	for _, tt := range []struct {
		name  string
		early bool // the call began before the cool-down's end
		end   limit.Outcome
		want  error
	}{
		{"success", false, good, nil},
		{"failure", false, limit.Outcome{Failed: true}, limit.ErrCoolingDown},
		{"another 429", false, limited(0), limit.ErrCoolingDown},
		{"began too early", true, good, limit.ErrCoolingDown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := limit.New(nil)
				enter(t, h, github).Leave(limited(7 * time.Second))
				if tt.early {
					time.Sleep(7*time.Second - 1)
				} else {
					time.Sleep(7 * time.Second)
				}
				slot := enter(t, h, github)
				time.Sleep(time.Second)
				slot.Leave(tt.end)
				wantRefused(t, h, github, tt.want)
			})
		})
	}
}

// TestCoolDownLength: a 429 never shortens the cool-down. Reports of other replicas that were refused too do not
// make it longer.
func TestCoolDownLength(t *testing.T) {
	const unsaid = 0
	for _, tt := range []struct {
		name string
		said []time.Duration // Retry-After of consecutive 429s; 0 for none
		want time.Duration   // cool-down after the last one
	}{
		{"unsaid", []time.Duration{unsaid}, 30 * time.Second},
		{"again", []time.Duration{unsaid, unsaid}, 30 * time.Second},
		{"said too long", []time.Duration{24 * time.Hour}, time.Hour},
		{"never shorter", []time.Duration{time.Minute, time.Second}, time.Minute},
		{"negative", []time.Duration{-time.Second}, 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := limit.New(nil)
				for _, said := range tt.said {
					time.Sleep(time.Nanosecond)
					enter(t, h, github).Leave(limited(said))
					for range 3 {
						h.NoteLimited(github, said)
					}
				}
				if got := time.Until(h.Stats()[0].CoolingUntil).Round(time.Millisecond); got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestCoolDownEndsWaitingPrefetches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := limit.New(map[string]limit.Rule{"*": {Concurrency: 2}})
		first, second := enter(t, h, github), enter(t, h, github)
		promoted := make(chan struct{})
		ends := make(chan error, 2)
		order := make(begun, 2)
		order.real(t, h, "real", time.Second)
		go func() { _, err := h.EnterSpare(t.Context(), github, nil); ends <- err }()
		order.prefetch(t, h, "promoted", promoted, time.Second)
		close(promoted)
		first.Leave(limited(0))
		synctest.Wait()
		if len(ends) != 1 {
			t.Fatal("the prefetch still waits")
		}
		if err := <-ends; err != limit.ErrCoolingDown {
			t.Errorf("got %v, want ErrCoolingDown", err)
		}
		second.Leave(good)
		time.Sleep(time.Minute)
		if got := order.order(); len(got) != 2 {
			t.Errorf("got %v, want the real call and the promoted one to begin", got)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		header string
		want   time.Duration
	}{
		{"7", 7 * time.Second},
		{"0", 0},
		{"3601", time.Hour},
		{"Sun, 01 Mar 2026 10:00:30 GMT", 30 * time.Second},
		{"Sun, 01 Mar 2026 09:00:00 GMT", 0},
		{"Sun, 01 Mar 2099 09:00:00 GMT", time.Hour},
		{"", 0},
		{"-5", 0},
		{"1.5", 0},
		{"soon", 0},
	} {
		if got := limit.RetryAfter(tt.header, now); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.header, got, tt.want)
		}
	}
}
