package age_test

import (
	"testing"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/bubble"
)

func TestSince(t *testing.T) {
	evening := age.At(time.Hour, 20*time.Hour)
	for _, tt := range []struct {
		name             string
		morning          age.Moment
		since, monotonic time.Duration
	}{
		{"awake", age.At(2*time.Hour, 21*time.Hour), time.Hour, time.Hour},
		{"it slept", age.At(time.Hour+time.Second, 28*time.Hour), 8 * time.Hour, time.Second},
		{"the wall clock was set back", age.At(2*time.Hour, 12*time.Hour), time.Hour, time.Hour},
		{"the same moment", evening, 0, 0},
	} {
		if since, monotonic := tt.morning.Since(evening), tt.morning.Monotonic(evening); since != tt.since || monotonic != tt.monotonic {
			t.Errorf("%s: got %v, %v monotonic, want %v, %v", tt.name, since, monotonic, tt.since, tt.monotonic)
		}
	}
}

func TestNow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := age.Now()
		time.Sleep(time.Minute)
		if now := age.Now(); now.Since(began) != time.Minute || now.Monotonic(began) != time.Minute {
			t.Errorf("got %v, %v monotonic, want a minute", now.Since(began), now.Monotonic(began))
		}
	})
	began := age.Now()
	if now := age.Now(); now.Monotonic(began) < 0 || now.Since(began) < now.Monotonic(began) {
		t.Errorf("got %v, %v monotonic", now.Since(began), now.Monotonic(began))
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 650772380 * time.Nanosecond: "651ms", 1500 * time.Millisecond: "1.5s", 30 * time.Second: "30s",
		time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 2*time.Hour + 30*time.Minute: "2h30m", time.Hour + time.Second: "1h0m1s",
	} {
		if got := age.Text(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
