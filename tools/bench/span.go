package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// span measures the makespan of the sleeps of an upstream: from the arrival of the first call to
// the end of the last sleep. It is the schedule as the server sees it, without the time to send a
// plan and to read its result.
type span struct {
	mu          sync.Mutex
	first, last time.Time
}

func (s *span) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first = time.Now()
	}
}

func (s *span) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
}

// take returns the span in microseconds, and starts a new one.
func (s *span) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.last.Sub(s.first).Microseconds()
	s.first, s.last = time.Time{}, time.Time{}
	return strconv.FormatInt(took, 10)
}

// span returns the makespan of the upstream's sleeps since the last call of span.
func (c *stdioClient) span(names tools) (time.Duration, error) {
	answer, err := c.ask(ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{}}`, names.span)))
	if err != nil {
		return 0, err
	}
	raw, err := resultOf(answer)
	if err != nil {
		return 0, err
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Content) != 1 {
		return 0, errors.Join(fmt.Errorf("span: %.100q", raw), err)
	}
	n, err := strconv.ParseInt(result.Content[0].Text, 10, 64)
	return time.Duration(n) * time.Microsecond, err
}
