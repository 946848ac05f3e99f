package speculate_test

import (
	"testing"

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
			d.Presume(upstream, tt.known)
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
	d.Presume(upstream, speculate.Parallel)
	if got := d.Concurrency(upstream); got != speculate.Serial {
		t.Errorf("got %v, want what was seen", got)
	}

	d = speculate.New(speculate.Options{})
	for range 10 {
		d.Presume(upstream, speculate.Parallel)
		d.Presume(upstream, speculate.Serial) // what came first holds
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
