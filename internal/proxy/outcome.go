package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/upstream"
)

// outcome is how a call has ended.
type outcome struct {
	answer        upstream.Answer
	verdict       limit.Verdict // on the host that was asked
	cacheable     bool          // another call may get the same answer, as far as the call asks that
	inputRequired bool          // the answer is questions: the call goes on
	err           error
}

// ownAnswer is an answer that no server wrote, at least not just now.
func ownAnswer(result []byte, stateless bool) upstream.Answer {
	return upstream.Answer{Message: jsonrpc.Message{Result: result}, Stateless: stateless}
}

// cacheable reports whether another call may get the same answer: a result that
// says neither that it failed nor that more is to come.
func cacheable(answer upstream.Answer) bool {
	if answer.Result == nil {
		return false
	}
	members := answer.Index(answer.Result)
	for m := range members.All() {
		switch string(m.Name) {
		case "isError":
			if string(m.Value) != "false" {
				return false
			}
		case "resultType":
			if string(m.Value) != `"complete"` {
				return false
			}
		case "task":
			return false
		}
	}
	return true
}

// unavailable reports whether a call failed because its server was not there, or is not
// any more: else that may still be at it, although the proxy waits no longer.
func unavailable(err error) bool {
	_, away := errors.AsType[*upstream.Unavailable](err)
	return away
}

// maxErrorAnswer (bytes) is how long an answer may be to be read for an error: one
// in which a server says that it was refused is never long, and a long one should
// not be searched for that.
const maxErrorAnswer = 4 << 10

// verdict is what an outcome tells of the host that was asked.
func verdict(answer upstream.Answer, err error) limit.Verdict {
	if answer.Limited {
		wait, _ := limit.RetryAfter(answer.RetryAfter, time.Now())
		return limit.Verdict{Limited: true, RetryAfter: wait, Failed: true}
	}
	if err != nil {
		return limit.Verdict{Failed: true}
	}
	text, failed := errorText(answer)
	if !failed {
		return limit.Verdict{}
	}
	wait, limited := limit.Limited(text)
	return limit.Verdict{Limited: limited, RetryAfter: wait, Failed: true}
}

// errorText returns what a server says of a call that failed.
func errorText(answer upstream.Answer) (text string, failed bool) {
	if answer.Error != nil {
		return message(answer.Error), true
	}
	if len(answer.Result) > maxErrorAnswer || string(jsonrpc.Get(answer.Result, "isError")) != "true" {
		return "", false
	}
	var lines []string
	for block := range jsonrpc.Elements(jsonrpc.Get(answer.Result, "content")) {
		if line, ok := jsonrpc.String(jsonrpc.Get(block, "text")); ok {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n"), true
}

// failureReason says in a word why a call was not answered.
func failureReason(err error, gone bool) string {
	if gone {
		return "cancelled"
	}
	var refused *jsonrpc.Error
	switch {
	case errors.Is(err, upstream.ErrTimeout):
		return "timeout"
	case unavailable(err):
		return "unavailable"
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return "unanswered"
}

// failed turns an error of ours into what MCP has for it: a tool that could
// not be run is a result with isError, so that the model reads why; anything
// else is a JSON-RPC error.
func (x *request) failed(err error) {
	// Not one that err wraps: that was said to the proxy, or of a server's line.
	if refused, ok := err.(*jsonrpc.Error); ok {
		x.fail(refused)
		return
	}
	if errors.Is(err, upstream.ErrTimeout) {
		err = fmt.Errorf("upstream %q: no answer within %v", x.call.lease.Name(), x.call.lease.member.Timeout)
	}
	if !unavailable(err) && x.ctx.Err() == nil {
		err = fmt.Errorf("upstream %q: %w", x.call.lease.Name(), err)
	}
	level := slog.LevelWarn
	if x.ctx.Err() != nil {
		level = slog.LevelDebug // the client's own wish
	}
	x.s.srv.log.Log(x.ctx, level, "call not answered by its upstream", "upstream", x.call.lease.Name(), "method", x.msg.Method, "err", err)
	if x.msg.Method != "tools/call" {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()})
		return
	}
	x.finish(failedResult(err))
}
