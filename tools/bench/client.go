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
	// patience is the time after which anything counts as stuck. The known stalls of a Go runtime
	// last one or two minutes, and must be measured rather than cut short.
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
	// drive makes the calls of l and measures each.
	drive(l load) (sample, error)
	// close ends the client's connections.
	close() error
}

// load is a number of consecutive calls.
type load struct {
	call   template
	window int           // calls in flight
	span   time.Duration // no call begins later than this after the start; 0 means no bound
	count  int           // number of calls; 0 means no bound
	length int           // bytes of each answer; 0 means that it is not checked
}

// done reports whether no further call must begin.
func (l load) done(begun int, elapsed time.Duration) bool {
	return l.count > 0 && begun >= l.count || l.span > 0 && elapsed >= l.span
}

func (l load) check(answer []byte) error {
	if l.length > 0 && len(answer) != l.length {
		return fmt.Errorf("an answer of %d bytes, want %d: %.200q … %q", len(answer), l.length, answer, answer[max(0, len(answer)-100):])
	}
	return nil
}

// sample is the result of a load.
type sample struct {
	latencies []time.Duration // of each call
	timely    int             // calls answered while others still began
	elapsed   time.Duration   // from the start to the last timely answer
	whole     time.Duration   // from the start to the last answer
}

// add counts an answer. Answers after the last call has begun are not timely, as fewer calls are
// in flight then.
func (s *sample) add(latency, at time.Duration, late bool) {
	s.latencies = append(s.latencies, latency)
	s.whole = at
	if !late {
		s.timely++
		s.elapsed = at
	}
}

// rate returns the calls per second while the window was full, or of the whole load if there was
// no answer in that time.
func (s sample) rate() float64 {
	if s.timely == 0 {
		return rate(len(s.latencies), s.whole)
	}
	return rate(s.timely, s.elapsed)
}

// tools are the names under which a server lists the tools of the upstream.
type tools struct{ blob, sleep string }

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

// toolNames returns the names of the upstream's tools in an answer to tools/list, with or without
// a proxy's prefix.
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
		}
	}
	if t.blob == "" || t.sleep == "" {
		return tools{}, fmt.Errorf("tools/list: no blob or no sleep in %.300q", raw)
	}
	return t, nil
}

// prove makes one call, decodes its whole answer, and checks that the text is the one that the
// upstream sends. It returns the length of the answer, which each timed answer must have.
func prove(c client, call template) (int, error) {
	answer, err := c.ask(call)
	if err != nil {
		return 0, fmt.Errorf("tools/call: %w", err)
	}
	return len(answer), call.verify(answer)
}
