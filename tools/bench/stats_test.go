package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, tc := range []struct {
		name   string
		values []int
		p      float64
		want   int
	}{
		{"none", nil, 50, 0},
		{"one", []int{7}, 99, 7},
		{"lowest", []int{3, 1, 2}, 0, 1},
		{"highest", []int{3, 1, 2}, 100, 3},
		{"odd median", []int{3, 1, 2}, 50, 2},
		{"even median is the lower", []int{4, 3, 1, 2}, 50, 2},
		{"p99 of a hundred", hundred, 99, 99},
		{"p50 of a hundred", hundred, 50, 50},
		{"p99 of ten is the highest", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 99, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rand.Shuffle(len(tc.values), func(i, j int) { tc.values[i], tc.values[j] = tc.values[j], tc.values[i] })
			if got := percentile(tc.values, tc.p); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestSpread(t *testing.T) {
	if got := spreadOf(nil); got != (spread{}) {
		t.Errorf("got %+v, want zero for no values", got)
	}
	got := spreadOf([]float64{4, 1, 3, 2})
	want := spread{Median: 2.5, Low: 1, High: 3, Min: 1, Max: 4, Rounds: 4}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("spread (-want +got):\n%s", d)
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	// In the second round both were twice as slow; in the third one figure is missing.
	got := ratios([]float64{11, 24, 5, 9}, []float64{10, 20, 0})
	if d := cmp.Diff([]float64{1.1, 1.2}, got); d != "" {
		t.Errorf("ratios (-want +got):\n%s", d)
	}
}

func TestRateLeavesTheTailOut(t *testing.T) {
	var s sample
	s.add(0, 100*time.Millisecond, false)
	s.add(0, 200*time.Millisecond, false)
	if got := s.rate(); got != 10 {
		t.Errorf("got %g calls/s, want 10", got)
	}
	s.add(0, 900*time.Millisecond, true)
	if got := s.rate(); got != 10 || s.whole != 900*time.Millisecond || len(s.latencies) != 3 {
		t.Errorf("got %g calls/s, whole %s, %d latencies, want 10, 900ms, 3", got, s.whole, len(s.latencies))
	}
	late := sample{}
	late.add(0, 500*time.Millisecond, true)
	if got := late.rate(); got != 2 {
		t.Errorf("got %g calls/s from late answers only, want 2", got)
	}
}

// ratioRow returns the row of a run with one round, in which the proxy takes over times the
// relay's 100 µs, and makes rates times its 1000 calls per second.
func ratioRow(c cell, over, rates float64) row {
	relay := &runner{target: &target{name: relayed}, latencies: []time.Duration{100 * time.Microsecond},
		medians: []float64{100e-6}, rates: []float64{1000}, cpu: 50 * time.Microsecond, cpuKnown: true}
	proxy := &runner{target: &target{name: proxied}, latencies: []time.Duration{time.Duration(over * 1e5)},
		medians: []float64{over * 100e-6}, rates: []float64{rates * 1000}}
	return newRow(c, []*runner{relay, proxy})
}

func TestTargets(t *testing.T) {
	for _, tc := range []struct {
		cell        cell
		over, rates float64
		checks      int
		want        bool
	}{
		{cell{sdkUpstream, stdio, 1 << 10, 1}, 1.19, 0, 1, true},
		{cell{sdkUpstream, stdio, 1 << 10, 1}, 1.21, 9, 1, false},
		{cell{sdkUpstream, overHTTP, 100 << 10, 1}, 1.07, 0, 1, true},
		{cell{sdkUpstream, overHTTP, 100 << 10, 1}, 1.09, 9, 1, false},
		{cell{sdkUpstream, stdio, 1 << 20, 1}, 1.07, 0, 1, true},
		{cell{sdkUpstream, stdio, 1 << 20, 1}, 1.09, 9, 1, false},
		{cell{sdkUpstream, stdio, 1 << 10, 32}, 9, 0.86, 1, true},
		{cell{sdkUpstream, stdio, 1 << 10, 32}, 1, 0.84, 1, false},
		{cell{sdkUpstream, stdio, 100 << 10, 32}, 9, 0.96, 1, true},
		{cell{sdkUpstream, stdio, 100 << 10, 32}, 1, 0.94, 1, false},
		{cell{sdkUpstream, stdio, 1 << 20, 32}, 9, 0.1, 0, true},
		{cell{rawUpstream, stdio, 1 << 10, 1}, 9, 0.1, 0, true},
	} {
		t.Run(fmt.Sprintf("%s ×%g ×%g", tc.cell, tc.over, tc.rates), func(t *testing.T) {
			r := newReport(options{mode: "speed", bin: "x"})
			r.addCell(ratioRow(tc.cell, tc.over, tc.rates))
			if len(r.Targets) != tc.checks || r.passed() != tc.want {
				t.Errorf("got passed %t by %+v, want %t by %d", r.passed(), r.Targets, tc.want, tc.checks)
			}
		})
	}
}

func TestTable(t *testing.T) {
	r := newReport(options{mode: "speed", bin: "x"})
	r.addCell(ratioRow(cell{sdkUpstream, stdio, 1 << 10, 1}, 1.5, 0.5))
	r.addFact("calls", 20_000, "calls")
	r.Go, r.OS, r.Arch, r.CPUs, r.Seconds = "go1", "os", "arch", 2, 3
	var got bytes.Buffer
	if err := r.write(&got); err != nil {
		t.Fatal(err)
	}
	want := caption + strings.TrimPrefix(`
             cell           p50    p99  calls/s  cpu/call  calls  p50 to base (quartiles)   calls/s to base
  sdk/stdio/1KB/1  relay  100µs  100µs     1000      50µs      1                                           
                   proxy  150µs  150µs      500                1         1.50 (1.50–1.50)  0.50 (0.50–0.50)
calls                               20000 calls
sdk/stdio/1KB/1 p50, proxy / relay  1.5   (target ≤ 1.2)  MISSED
go1 os/arch, 2 CPUs, 3 s
`, "\n")
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

func TestVersionsTarget(t *testing.T) {
	for _, tc := range []struct {
		window  int
		p50     time.Duration
		rate    float64
		reached bool
	}{
		{1, 104 * time.Microsecond, 1, true},
		{1, 106 * time.Microsecond, 2000, false},
		{32, time.Second, 960, true},
		{32, time.Microsecond, 940, false},
	} {
		r := newReport(options{mode: "versions", bin: "x"})
		before := &runner{target: &target{name: older}, medians: []float64{100e-6}, rates: []float64{1000}}
		now := &runner{target: &target{name: newer}, medians: []float64{tc.p50.Seconds()}, rates: []float64{tc.rate}}
		r.addCell(newRow(cell{rawUpstream, stdio, 1 << 10, tc.window}, []*runner{before, now}))
		if len(r.Targets) != 1 || r.passed() != tc.reached {
			t.Errorf("%d at once, %v, %g calls/s: got %+v, want reached %t", tc.window, tc.p50, tc.rate, r.Targets, tc.reached)
		}
	}
}

func TestTurns(t *testing.T) {
	const usual = 100 * time.Millisecond
	for _, c := range []struct {
		warm   time.Duration
		slice  time.Duration
		rounds int
	}{
		{warm: time.Millisecond, slice: usual, rounds: 26},
		{warm: 50 * time.Millisecond, slice: 150 * time.Millisecond, rounds: 17},
		{warm: time.Second, slice: 3 * time.Second, rounds: fewestRounds},
	} {
		slice, rounds := turns(usual, 26, []*runner{{warm: time.Microsecond}, {warm: c.warm}})
		if slice != c.slice || rounds != c.rounds {
			t.Errorf("calls of %v: got %d turns of %v, want %d of %v", c.warm, rounds, slice, c.rounds, c.slice)
		}
	}
}
