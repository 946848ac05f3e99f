package daemon

import "testing"

// A daemon hangs by the number of intervals in which one ping is unanswered, not by their total.
func TestPinging(t *testing.T) {
	var p pingState
	for range 3 {
		if ping, hangs := p.next(); !ping || hangs {
			t.Fatalf("got %v, %v; want a ping", ping, hangs)
		}
		for range maxSilent - 1 {
			if ping, hangs := p.next(); ping || hangs {
				t.Fatalf("got %v, %v; want it to wait for the answer", ping, hangs)
			}
		}
		p.open = false // answered late
	}
	p.next()
	for pause := 1; ; pause++ {
		ping, hangs := p.next()
		if ping || hangs != (pause == maxSilent) {
			t.Fatalf("pause %d: got %v, %v", pause, ping, hangs)
		}
		if hangs {
			return
		}
	}
}
