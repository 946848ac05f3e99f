package speculate_test

import (
	"math"
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/speculate"
)

// TestPresume: prior knowledge applies at once, and evidence overturns it in two steps.
func TestPresume(t *testing.T) {
	serial, parallel := overlap{10, 100, 200}, overlap{10, 100, 110}
	for _, tt := range []struct {
		name  string
		known speculate.Concurrency
		seen  []overlap
		want  speculate.Concurrency
		at    string // the room of a new session
	}{
		{"nothing", speculate.Unknown, nil, speculate.Unknown, "1 1 false"},
		{"nothing that there is", speculate.Concurrency(7), nil, speculate.Unknown, "1 1 false"},
		{"parallel", speculate.Parallel, nil, speculate.Parallel, "3 1 false"},
		{"serial", speculate.Serial, nil, speculate.Serial, "1 1 false"},
		{"parallel, and one says otherwise", speculate.Parallel, []overlap{serial}, speculate.Parallel, "3 1 false"},
		{"two do", speculate.Parallel, []overlap{serial, serial}, speculate.Unknown, "1 1 false"},
		{"serial, and one says otherwise", speculate.Serial, []overlap{parallel}, speculate.Serial, "1 1 false"},
		{"two do", speculate.Serial, []overlap{parallel, parallel}, speculate.Unknown, "1 1 false"},
		{"parallel, and it is serial", speculate.Parallel, repeated(serial, 12), speculate.Serial, "1 1 false"},
		{"serial, and it is parallel", speculate.Serial, repeated(parallel, 12), speculate.Parallel, "3 1 false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := speculate.New(speculate.Options{})
			d.Presume(upstream, speculate.Known{Is: tt.known}, nil)
			alone(d, "t", 100)
			for n, o := range tt.seen {
				o.play(d, n, "t")
			}
			if got := d.Known(upstream).Is; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			wantRoom(t, d.Session(""), host, tt.at)
		})
	}
}

func repeated(o overlap, times int) (all []overlap) {
	for range times {
		all = append(all, o)
	}
	return all
}

// TestPresumeTooLate: prior knowledge does not replace evidence, and counts once.
func TestPresumeTooLate(t *testing.T) {
	d := speculate.New(speculate.Options{})
	teach(d, upstream, speculate.Serial)
	d.Presume(upstream, speculate.Known{Is: speculate.Parallel}, nil)
	if got := d.Known(upstream).Is; got != speculate.Serial {
		t.Errorf("got %v, want what was seen", got)
	}

	d = speculate.New(speculate.Options{})
	for range 10 {
		d.Presume(upstream, speculate.Known{Is: speculate.Parallel}, nil)
		d.Presume(upstream, speculate.Known{Is: speculate.Serial}, nil) // what came first holds
	}
	alone(d, "t", 100)
	for n := range 2 {
		overlap{10, 100, 200}.play(d, n, "t")
	}
	if got := d.Known(upstream).Is; got != speculate.Unknown {
		t.Errorf("got %v, want unknown after two that say otherwise", got)
	}
	d.RemoveInstance(upstream)
	if got := d.Known(upstream).Is; got != speculate.Unknown {
		t.Errorf("got %v of one that is gone", got)
	}
}

// TestEvidenceOfShortSessionsAddsUp: several short sessions together have enough evidence.
func TestEvidenceOfShortSessionsAddsUp(t *testing.T) {
	var known speculate.Known
	for session := range 4 {
		d := speculate.New(speculate.Options{})
		d.Presume(upstream, known, nil)
		alone(d, "t", 100)
		if got, want := d.Known(upstream).Is, speculate.Unknown; session < 2 && got != want {
			t.Errorf("session %d: got %v, want %v", session, got, want)
		}
		overlap{10, 100, 110}.play(d, 1, "t")
		known = d.Known(upstream)
	}
	if known.Is != speculate.Parallel {
		t.Errorf("got %+v, want parallel", known)
	}
}

// TestPresumeUsual: usual latencies are prior knowledge too. They do not replace samples, and a small
// difference from them is not evidence.
func TestPresumeUsual(t *testing.T) {
	for _, tt := range []struct {
		name  string
		usual int // ms
		alone bool
		seen  overlap
		want  speculate.Concurrency
	}{
		{"nothing", 0, false, overlap{10, 100, 110}, speculate.Unknown},
		{"it took as long as usual", 100, false, overlap{10, 100, 110}, speculate.Parallel},
		{"it took as long as usual after the other", 100, false, overlap{10, 100, 200}, speculate.Serial},
		{"it came when the other was all but done", 100, false, overlap{80, 100, 190}, speculate.Unknown},
		{"here it takes much less", 1000, true, overlap{10, 100, 110}, speculate.Parallel},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := speculate.New(speculate.Options{})
			if tt.alone {
				alone(d, "t", 100)
			}
			if tt.usual > 0 {
				d.Presume(upstream, speculate.Known{}, map[string]enrich.Percentiles{"t": enrich.Fixed(time.Duration(tt.usual) * time.Millisecond)})
			}
			for n := range 3 {
				tt.seen.play(d, n, "t")
			}
			if got := d.Known(upstream).Is; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestConcurrencyIsKept: stored concurrency is loaded unchanged, except values that are out of range.
func TestConcurrencyIsKept(t *testing.T) {
	for _, is := range []speculate.Known{{}, {Is: speculate.Serial, Serial: 3}, {Is: speculate.Parallel, Parallel: 3}, {Parallel: 1.9, Serial: 0.25}} {
		if got := speculate.AsKept(speculate.Kept(is)); got != is {
			t.Errorf("got %+v, want %+v", got, is)
		}
	}
	sure := speculate.Known{Is: speculate.Serial, Parallel: 1, Serial: 8}
	if got := speculate.AsKept(speculate.Kept(sure)); got.Is != speculate.Serial || got.Serial > 3 {
		t.Errorf("got %+v: what was sure is to be turned by two pieces of evidence", got)
	}
	for _, c := range []predict.Concurrency{{Parallel: math.NaN()}, {Parallel: -1, Serial: 2}, {Parallel: 1e9}, {Serial: math.Inf(1)}} {
		if got := speculate.AsKept(c); got != (speculate.Known{}) {
			t.Errorf("%+v: got %+v, want nothing known", c, got)
		}
	}
}
