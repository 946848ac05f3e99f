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

// outcome is the result of a call.
type outcome struct {
	answer        upstream.Answer
	verdict       limit.Outcome // on the host
	cacheable     bool          // another call may be given the answer; only set if needsCacheable
	inputRequired bool          // the answer asks the client for input and the call continues
	err           error
}

// ownAnswer returns an answer that did not come from a server's response to this call.
func ownAnswer(result []byte, stateless bool) upstream.Answer {
	return upstream.Answer{Message: jsonrpc.Message{Result: result}, Stateless: stateless}
}

// ownOutcome returns the outcome of a request that the proxy answers itself.
func ownOutcome(result []byte) outcome { return outcome{answer: ownAnswer(result, false)} }

// invalidParams returns the error of a request with invalid params.
func invalidParams(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// failedOutcome returns the outcome of a tools/call that the proxy answers with an error: a
// result with isError set, so that the model reads the error's text.
func failedOutcome(err error) outcome {
	return ownOutcome(jsonrpc.Set(textResult(err.Error()), "isError", []byte("true")))
}

// cacheable reports whether another call may be given the answer: a result that is not an
// error, not a question and not a task.
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

// unavailable reports whether err means that the server was not connected or has gone.
// Otherwise the server may still be running the call.
func unavailable(err error) bool {
	_, away := errors.AsType[*upstream.Unavailable](err)
	return away
}

// maxErrorAnswer is the maximum size in bytes of an answer that is searched for the text of a
// rate limit. Servers report that in short answers; searching long ones would be slow.
const maxErrorAnswer = 4 << 10

// verdict returns what an outcome means for the limits of its host.
func verdict(answer upstream.Answer, err error) limit.Outcome {
	if answer.Limited {
		wait, _ := limit.RetryAfter(answer.RetryAfter, time.Now())
		return limit.Outcome{Limited: true, RetryAfter: wait, Failed: true}
	}
	if err != nil {
		return limit.Outcome{Failed: true}
	}
	text, failed := errorText(answer)
	if !failed {
		return limit.Outcome{}
	}
	wait, limited := limit.Limited(text)
	return limit.Outcome{Limited: limited, RetryAfter: wait, Failed: true}
}

// errorText returns the server's error message, if the call failed.
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

// failureReason returns the event log's word for why a call was not answered.
func failureReason(err error, cancelled bool) string {
	if cancelled {
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

// explain returns the error of a call that its upstream did not answer, with the upstream's name.
func (x *request) explain(err error) error {
	if refused, ok := err.(*jsonrpc.Error); ok {
		return errors.New(refused.Message)
	}
	l := x.call.lease
	if errors.Is(err, upstream.ErrTimeout) {
		err = fmt.Errorf("no answer within %v", l.member.Timeout)
	}
	level := slog.LevelWarn
	if x.ctx.Err() != nil {
		level = slog.LevelDebug // the client cancelled
	} else if !unavailable(err) {
		err = fmt.Errorf("upstream %q: %w", l.Name(), err)
	}
	x.s.srv.log.Log(x.ctx, level, "call not answered by its upstream", "upstream", l.Name(), "method", x.msg.Method, "err", err)
	return err
}
