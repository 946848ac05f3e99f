package demo

import (
	"context"
	"time"
)

type (
	Answer  = answer
	Call    = call
	Planned = planComparison
	Played  = runResult
)

var (
	NewUpstream   = newUpstream
	Latency       = newWorld().latency
	Shorten       = shorten
	NewReport     = newReport
	WriteText     = (*report).writeText
	Configuration = Options.configuration
	Script        = script
	Config        = config
)

// Play plays turns without a terminal.
func Play(p *Played, ctx context.Context, turns []turn, speed float64, do caller) error {
	return p.play(ctx, turns, speed, nil, do)
}

// AnswerTo returns the answer to a call, as play records it.
func AnswerTo(c Call, turn int, text string, wait time.Duration) Answer {
	return Answer{call: c, Turn: turn, Text: text, Wait: wait}
}
