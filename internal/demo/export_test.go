package demo

import "time"

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
	Play          = (*runResult).play
	Script        = script
)

const DefaultSpeed = defaultSpeed

// AnswerTo returns the answer to a call, as play records it.
func AnswerTo(c Call, turn int, text string, wait time.Duration) Answer {
	return Answer{call: c, Turn: turn, Text: text, Wait: wait}
}
