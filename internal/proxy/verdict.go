package proxy

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/upstream"
)

// shortAnswer (bytes) is how long an answer may be to be read for an error: one
// in which a server says that it was refused is never long, and a long one should
// not be searched for that.
const shortAnswer = 8 << 10

// verdict is what an outcome tells of the host that was asked.
func verdict(answer upstream.Answer, err error) limit.Verdict {
	if answer.Limited {
		wait, _ := limit.RetryAfter(answer.RetryAfter, time.Now())
		return limit.Verdict{Limited: true, RetryAfter: wait}
	}
	if err != nil {
		return limit.Verdict{Failed: true}
	}
	text, failed := complaint(answer)
	if !failed {
		return limit.Verdict{}
	}
	wait, limited := limit.Limited(text)
	return limit.Verdict{Limited: limited, RetryAfter: wait, Failed: true}
}

// complaint returns what a server says of a call that failed.
func complaint(answer upstream.Answer) (text string, failed bool) {
	if answer.Error != nil {
		return message(answer.Error), true
	}
	if len(answer.Result) > shortAnswer || !bytes.Contains(answer.Result, []byte(`"isError"`)) || string(jsonrpc.Get(answer.Result, "isError")) != "true" {
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

// reasonFor says in a word why a call was not answered.
func reasonFor(err error, gone bool) string {
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
