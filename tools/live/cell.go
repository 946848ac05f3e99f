package main

import (
	"strings"
	"time"
)

// cell is a kind of server and client.
type cell struct {
	HTTP   bool          // the server has a URL; otherwise it is a process on stdio
	Serial bool          // the server handles one call at a time
	Takes  time.Duration // latency of each call
	Pauses pauses
}

// pauses is the way in which a client makes its calls.
type pauses string

const (
	recorded pauses = "recorded" // the calls of a turn together, with recorded pauses
	hasty    pauses = "hasty"    // pauses of 0.3 to 1 s
	inRow    pauses = "row"      // the reads of a turn one after the other, with recorded pauses
	atOnce   pauses = "once"     // the reads of a turn together, with recorded pauses
)

func (c cell) String() string {
	transport, server := "stdio", "parallel"
	if c.HTTP {
		transport = "http"
	}
	if c.Serial {
		server = "serial"
	}
	return strings.Join([]string{transport, server, c.Takes.String(), string(c.Pauses)}, "/")
}

func allCells() []cell {
	var all []cell
	for _, http := range []bool{false, true} {
		for _, serial := range []bool{false, true} {
			for _, takes := range []time.Duration{600 * time.Millisecond, 3 * time.Second} {
				for _, p := range []pauses{recorded, hasty, inRow, atOnce} {
					all = append(all, cell{http, serial, takes, p})
				}
			}
		}
	}
	return all
}

// Targets of the figures.
const (
	fromReplay      = 0.10 // maximum difference of coverage from that of replay
	coldCoverage    = 0.40
	trainedCoverage = 0.45
	callsPerCall    = 1.3 // upstream calls per call
	othersRecorded  = 1.02
	othersHasty     = 1.05
)

// missed returns the targets that a row misses.
func (r *row) missed() []string {
	var all []string
	miss := func(is bool, name string) {
		if is {
			all = append(all, name)
		}
	}
	if r.Arm != off {
		miss(r.Coverage < r.Replay.Coverage-fromReplay || r.Coverage > r.Replay.Coverage+fromReplay, "replay")
		miss(r.Coverage < map[string]float64{cold: coldCoverage, trained: trainedCoverage}[r.Arm], "coverage")
		miss(r.PerCall > callsPerCall, "calls")
	}
	miss(r.Different > 0, "different")
	most := othersRecorded
	if r.cell.Pauses == hasty {
		most = othersHasty
	}
	miss(r.cell.Serial && r.Others > most, "others")
	return all
}

// Learned state of a proxy when a session begins.
const (
	off     = "off"     // prefetching is off
	cold    = "cold"    // only what sessions that ended before have learned
	trained = "trained" // also what the sessions of -train have learned
)

var arms = []string{off, cold, trained}

// row is the result of an arm of a cell.
type row struct {
	cell cell
	Arm  string
	figures
	Replay  replayed
	Ceiling float64 // coverage of the best possible prefetcher
	Others  float64 // time that calls which were not covered took at the server, relative to the same calls in the arm off; 0: not measured
	Missed  []string
}

// compare computes the field that is relative to the row without prefetches. The cost for calls
// that were not covered is measured at the server: on a busy machine the client's times are not
// precise enough.
func (r *row) compare(plays, without []*play) {
	var others, othersWithout time.Duration
	for i, p := range plays {
		for j := range p.calls {
			c, w := &p.calls[j], &without[i].calls[j]
			if !c.covered {
				others, othersWithout = others+r.cell.Takes+c.queued, othersWithout+r.cell.Takes+w.queued
			}
		}
	}
	r.Others = float64(others) / float64(max(othersWithout, 1))
}
