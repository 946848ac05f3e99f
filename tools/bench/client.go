package main

import (
	"encoding/json"
	"fmt"
	"time"
)

const (
	// lineBuffer holds the longest message: a buffered reader then hands out
	// each line without a copy.
	lineBuffer = 4 << 20
	// patience is how long anything may take before it counts as stuck. The
	// known stalls of a Go runtime last one or two minutes and are to be seen,
	// not cut short.
	patience = 150 * time.Second

	clientRevision = "2025-11-25"
)

// A client speaks raw JSON-RPC to one server. It is used by one goroutine.
type client interface {
	// ask sends one request and returns the whole answer, valid until the next
	// use.
	ask(r template) ([]byte, error)
	// tell sends one notification.
	tell(method string) error
	// drive makes calls as l says and times each.
	drive(l load) (sample, error)
	// close ends the client's connections.
	close() error
}

// load is a number of calls in a row.
type load struct {
	call   template
	window int           // calls in flight
	span   time.Duration // no call begins later than this after the start; 0 is no bound
	count  int           // calls; 0 is no bound
	length int           // bytes of each answer; 0 is not checked
}

// done says whether no further call is to begin.
func (l load) done(begun int, elapsed time.Duration) bool {
	return l.count > 0 && begun >= l.count || l.span > 0 && elapsed >= l.span
}

func (l load) check(answer []byte) error {
	if l.length > 0 && len(answer) != l.length {
		return fmt.Errorf("an answer of %d bytes, want %d: %.200q … %q", len(answer), l.length, answer, answer[max(0, len(answer)-100):])
	}
	return nil
}

// sample is what a load measured.
type sample struct {
	latencies []time.Duration // of each call
	timely    int             // calls answered while others still began
	elapsed   time.Duration   // from the start to the last of those
	whole     time.Duration   // to the last answer
}

// add counts one answer. The answers after the last call began are not timely:
// fewer calls were in flight then.
func (s *sample) add(latency, at time.Duration, late bool) {
	s.latencies = append(s.latencies, latency)
	s.whole = at
	if !late {
		s.timely++
		s.elapsed = at
	}
}

// rate is calls per second while the window was full; if it was never full for
// long enough to see an answer, over the whole load.
func (s sample) rate() float64 {
	if s.timely == 0 {
		return rate(len(s.latencies), s.whole)
	}
	return rate(s.timely, s.elapsed)
}

// tools are the names under which a server lists the upstream's tools.
type tools struct{ blob, sleep, span string }

// handshake makes c ready for calls.
func handshake(c client) (tools, error) {
	if err := initialize(c); err != nil {
		return tools{}, err
	}
	if err := c.tell("notifications/initialized"); err != nil {
		return tools{}, fmt.Errorf("notifications/initialized: %w", err)
	}
	answer, err := c.ask(ask("tools/list", `{}`))
	if err != nil {
		return tools{}, fmt.Errorf("tools/list: %w", err)
	}
	return toolNames(answer)
}

func initialize(c client) error {
	answer, err := c.ask(ask("initialize", `{"protocolVersion":"`+clientRevision+`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`))
	if err == nil {
		_, err = resultOf(answer)
	}
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	return nil
}

// toolNames finds the upstream's tools in an answer to tools/list, whether a
// proxy has put its name before them or not.
func toolNames(answer []byte) (tools, error) {
	raw, err := resultOf(answer)
	if err != nil {
		return tools{}, fmt.Errorf("tools/list: %w", err)
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &list); err != nil {
		return tools{}, fmt.Errorf("tools/list: %w", err)
	}
	var t tools
	for _, tool := range list.Tools {
		switch tool.Name {
		case "blob", "bench__blob":
			t.blob = tool.Name
		case "sleep", "bench__sleep":
			t.sleep = tool.Name
		case "span", "bench__span":
			t.span = tool.Name
		}
	}
	if t.blob == "" || t.sleep == "" {
		return tools{}, fmt.Errorf("tools/list: no blob or no sleep in %.300q", raw)
	}
	return t, nil
}

// prove makes one call, decodes its answer in full and compares the text with
// what the upstream must have sent. It returns the answer's length, which the
// timed calls are held to.
func prove(c client, call template) (int, error) {
	answer, err := c.ask(call)
	if err != nil {
		return 0, fmt.Errorf("tools/call: %w", err)
	}
	return len(answer), call.verify(answer)
}
