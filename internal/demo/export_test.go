package demo

import (
	"context"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

type (
	Account = account
	Answer  = answer
	Call    = call
	Session = session
)

var (
	NewUpstream = newUpstream
	Latency     = latency
	Shorten     = shorten
	ConfigFile  = configFile
	NewReport   = newReport
	Listed      = listed
	Quoted      = quoted
)

const DefaultSpeed = defaultSpeed

var (
	WriteTable = (*report).writeTable
	WriteJSON  = (*report).writeJSON
	Mismatch   = (*report).mismatch
	Wasted     = (*account).wasted

	Configuration = Options.configuration
)

// Script is the turns of the session, over a memory of its own.
func Script() []turn { return script(&memory{}) }

// Play plays the script through do.
func Play(ctx context.Context, speed float64, do func(context.Context, Call) (*mcp.CallToolResult, error)) (Session, error) {
	return play(ctx, Script(), do, speed, func(Answer) {})
}

// AnswerTo is the answer to a call that only reads, as play records it.
func AnswerTo(c Call, turn int, text string, wait time.Duration) Answer {
	return Answer{call: c, Turn: turn, Text: text, Wait: wait, ReadOnly: true}
}
