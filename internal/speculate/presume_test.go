package speculate_test

import (
	"testing"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/speculate"
)

// What is presumed holds at once and is turned by what is seen, in two steps.
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
			if got := d.Concurrency(upstream); got != tt.want {
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

// What has been seen is not presumed away; and what is presumed twice counts once.
func TestPresumeTooLate(t *testing.T) {
	d := speculate.New(speculate.Options{})
	teach(d, upstream, speculate.Serial)
	d.Presume(upstream, speculate.Known{Is: speculate.Parallel}, nil)
	if got := d.Concurrency(upstream); got != speculate.Serial {
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
	if got := d.Concurrency(upstream); got != speculate.Unknown {
		t.Errorf("got %v, want unknown after two that say otherwise", got)
	}
	d.Gone(upstream)
	if got := d.Concurrency(upstream); got != speculate.Unknown {
		t.Errorf("got %v of one that is gone", got)
	}
}

// Each of some short sessions sees too little to be sure; together they have seen enough.
func TestEvidenceOfShortSessionsAddsUp(t *testing.T) {
	var known speculate.Known
	for session := range 4 {
		d := speculate.New(speculate.Options{})
		d.Presume(upstream, known, nil)
		alone(d, "t", 100)
		if got, want := d.Concurrency(upstream), speculate.Unknown; session < 2 && got != want {
			t.Errorf("session %d: got %v, want %v", session, got, want)
		}
		overlap{10, 100, 110}.play(d, 1, "t")
		known = d.Known(upstream)
	}
	if known.Is != speculate.Parallel {
		t.Errorf("got %+v, want parallel", known)
	}
}

// How long calls usually take is presumed too, but not over what was seen here, and not so
// exactly that a little more or less would tell.
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
				d.Presume(upstream, speculate.Known{}, map[string]enrich.Spread{"t": enrich.Point(time.Duration(tt.usual) * time.Millisecond)})
			}
			for n := range 3 {
				tt.seen.play(d, n, "t")
			}
			if got := d.Concurrency(upstream); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// What is kept of an upstream ends with how it works on several calls, which is its server's.
func TestSplitLearned(t *testing.T) {
	for _, line := range []string{"", "concurrency: serial\n", "concurrency: parallel\n", "concurrency: 1.90 0.25\n"} {
		server, values := speculate.SplitLearned([]byte("0 {\"v\":6}\n1 server tool\n2 values constants\n" + line))
		if got, want := string(server), "0 {\"v\":6}\n1 server tool\n"+line; got != want {
			t.Errorf("got %q of the server, want %q", got, want)
		}
		if got, want := string(values), "0 {\"v\":6}\n2 values constants\n"; got != want {
			t.Errorf("got values %q, want %q", got, want)
		}
	}
	for _, line := range []string{"concurrency: NaN 0\n", "concurrency: -1 2\n", "concurrency: 1e9 0\n", "concurrency: \n", "concurrency: 1"} {
		if server, _ := speculate.SplitLearned([]byte("0 {\"v\":6}\n" + line)); string(server) != "0 {\"v\":6}\n"+line {
			t.Errorf("%q: got %q, want the line left to the model, which says that it cannot be read", line, server)
		}
	}
}
