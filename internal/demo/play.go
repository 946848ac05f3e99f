package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// answer is a call with what came back and how long that took.
type answer struct {
	call
	Turn        int           // from 1
	Text        string        // of the result, to the byte
	Disposition string        // what mcpschedd says it did; "" if it says nothing
	ReadOnly    bool          // its server says so
	Wait        time.Duration // as measured, from sending the call
}

// session is one run of the script.
type session struct {
	Start   time.Duration // until all connections were ready
	Waited  time.Duration // for answers; of calls made together, for the slowest
	Took    time.Duration // thinking and waiting
	Answers []answer      // in the order of the script
	Account *account      // what mcpschedd says of the run; nil: it had no part in it
}

// play runs the turns in order, through do, with think times divided by speed.
// It calls progress after each turn, once per call, and stops at the first
// answer that is an error or cannot be read: an agent's next arguments would
// come from it.
func play(ctx context.Context, turns []turn, do func(context.Context, call) (*mcp.CallToolResult, error), speed float64, progress func(answer)) (session, error) {
	var s session
	begin := time.Now()
	for n, t := range turns {
		if err := sleep(ctx, shorten(t.Think, speed)); err != nil {
			return s, err
		}
		calls := t.Calls()
		answers := make([]answer, len(calls))
		errs := make([]error, len(calls))
		var wg sync.WaitGroup
		sent := time.Now()
		for i, c := range calls {
			wg.Go(func() { answers[i], errs[i] = ask(ctx, c, n+1, do) })
		}
		wg.Wait()
		s.Waited += time.Since(sent)
		for i, a := range answers {
			if errs[i] != nil {
				return s, fmt.Errorf("turn %d: %s %s: %w", n+1, calls[i].Server, calls[i].Tool, errs[i])
			}
			s.Answers = append(s.Answers, a)
			progress(a)
		}
	}
	s.Took = time.Since(begin)
	return s, nil
}

// ask makes one call and reads its answer into the agent's memory.
func ask(ctx context.Context, c call, turn int, do func(context.Context, call) (*mcp.CallToolResult, error)) (answer, error) {
	sent := time.Now()
	r, err := do(ctx, c)
	a := answer{call: c, Turn: turn, Wait: time.Since(sent)}
	if err != nil {
		return a, err
	}
	if len(r.Content) != 1 {
		return a, fmt.Errorf("got %d content blocks, want 1", len(r.Content))
	}
	text, ok := r.Content[0].(mcp.TextContent)
	if !ok {
		return a, fmt.Errorf("got a block of type %T, want text", r.Content[0])
	}
	a.Text = text.Text
	if r.Meta != nil {
		a.Disposition, _ = r.Meta.AdditionalFields["mcpschedd/disposition"].(string)
	}
	if r.IsError {
		return a, fmt.Errorf("tool error: %s", a.Text)
	}
	return a, json.Unmarshal([]byte(a.Text), c.into)
}

// short is the call on one line of at most width characters.
func (c call) short(width int) string {
	var b strings.Builder
	b.WriteString(c.Server + " " + c.Tool)
	for _, name := range slices.Sorted(maps.Keys(c.Args)) {
		fmt.Fprintf(&b, " %s=%s", name, compact(c.Args[name]))
	}
	s := []rune(b.String())
	if len(s) > width {
		return string(s[:width-1]) + "…"
	}
	return string(s)
}

// milliseconds is d as the reports print it.
func milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
