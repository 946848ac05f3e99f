package proxy_test

import (
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// laptop is a machine that has slept for a time set by the test. Its monotonic clock did not
// advance meanwhile.
type laptop struct{ slept atomic.Int64 }

func (l *laptop) sleep(d time.Duration) { l.slept.Add(int64(d)) }

func (l *laptop) clock() age.Moment {
	now := time.Now().UnixNano()
	return age.At(time.Duration(now), time.Duration(now+l.slept.Load()))
}

// After a night, neither cached answers nor prefetches of the evening are served.
func TestStoredAnswersAgeInSleep(t *testing.T) {
	var l laptop
	o := prefetching(t, mcptest.Options{Name: "one"}, valuemodel.Rule{
		Pattern: "one/start", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: time.Hour}},
	})
	o.Dedup.Clock = l.clock
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("start", `{}`)
	c.call("list", `{}`)
	until(t, s, "two prefetches", settled(2))
	for _, step := range []struct {
		asleep                time.Duration
		tool, arguments, want string
	}{
		{0, "start", `{}`, "hit"}, {0, "echo", `{"n":11}`, "hit"},
		{8 * time.Hour, "echo", `{"n":12}`, "fetched"}, {0, "start", `{}`, "fetched"}, // start is fetched, and may cause a new prefetch of echo
		{0, "start", `{}`, "hit"},
	} {
		l.sleep(step.asleep)
		if how := disposition(t, c.call(step.tool, step.arguments)); how != step.want {
			t.Errorf("%s %s, %v later: got %s, want %s", step.tool, step.arguments, step.asleep, how, step.want)
		}
	}
}
