package daemon

import "testing"

// A daemon is given up by the pauses in which one ping has no answer, not by their number in all.
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
