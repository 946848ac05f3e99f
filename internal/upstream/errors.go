package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// The errors of a request that was passed to a connection. A request that fails earlier, while it
// waits for its turn or its server, certainly has not run either. A rejected Request.Isolated is not
// sent again, and its connection does not end.
//
//	                the server ran it   it is sent again   the connection ends
//	errClosed       certainly not       yes                yes
//	errSessionLost  certainly not       yes                yes
//	unsentError     certainly not       no                 no
//	statusError     perhaps             no                 if denied
//	errEnded        perhaps             no                 yes
//	any other       perhaps             no                 no
var (
	// errClosed means that the connection ended before the request was sent.
	errClosed = errors.New("connection closed")
	// errSessionLost means that the server no longer knows the session.
	errSessionLost = errors.New("session lost: the server no longer knows it")
	// errEnded means that the connection ended after the request was sent.
	errEnded = errors.New("connection ended before the answer")
	// ErrTimeout means that Request.Timeout passed without an answer.
	ErrTimeout = errors.New("no answer within the timeout")
)

// unsentError means that a message was not sent, or not completely.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

// statusError is an unexpected HTTP response.
type statusError struct {
	status   int
	text     string // the description
	denied   bool   // the server rejects the credentials
	mayBeSSE bool   // the endpoint rejects streamable HTTP and may support HTTP+SSE
}

func (e *statusError) Error() string { return e.text }

// statusOf returns the unexpected response that err describes, or an empty one.
func statusOf(err error) statusError {
	if e, ok := errors.AsType[*statusError](err); ok {
		return *e
	}
	return statusError{}
}

// errorResponse returns the JSON-RPC error that a server answered with, or nil if err is another
// error.
func errorResponse(err error) *jsonrpc.Error {
	e, _ := errors.AsType[*jsonrpc.Error](err)
	return e
}

// notRun reports whether the server certainly has not run a request that failed with err.
func notRun(err error) bool {
	_, unsent := errors.AsType[*unsentError](err)
	return unsent || retryable(err)
}

// Ended reports whether err is that the connection ended, other than by the proxy, after the request was sent.
func Ended(err error) bool { return errors.Is(err, errEnded) }

// Rejected reports whether err is an HTTP response by which the server has not run the request.
func Rejected(err error) bool {
	status := statusOf(err).status
	return 300 <= status && status < 500
}

// retryable reports whether a request that failed with err is sent again over the next connection.
func retryable(err error) bool { return errors.Is(err, errClosed) || errors.Is(err, errSessionLost) }

// endsConnection reports whether the connection of a request that failed with err ends.
func endsConnection(err error) bool {
	return retryable(err) || errors.Is(err, errEnded) || statusOf(err).denied
}

// permanent reports whether a GET that failed with err would fail again on the same connection.
func permanent(err error) bool {
	switch status := statusOf(err).status; status {
	case 0:
		return errors.Is(err, errSessionLost)
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < 500 || status == http.StatusNotImplemented
	}
}

// Unavailable is the error of a request that its server failed: it is down, has ended, limits its calls, or
// answered with what cannot be read. Its text is shown to the model and contains no secrets.
type Unavailable struct {
	Upstream string
	Cause    error
	Stderr   []string // last lines of stderr; nil over HTTP
}

func (u *Unavailable) Error() string {
	what := "is not available"
	if statusOf(u.Cause).status == http.StatusTooManyRequests {
		what = "limits its calls"
	}
	text := fmt.Sprintf("server %q %s: %v", u.Upstream, what, u.Cause)
	if len(u.Stderr) > 0 {
		text += "\nits last lines on stderr:\n  " + strings.Join(u.Stderr, "\n  ")
	}
	return text
}

func (u *Unavailable) Unwrap() error { return u.Cause }

// unavailable returns an *Unavailable for this upstream.
func (u *Upstream) unavailable(why error, stderr []string) error {
	return &Unavailable{Upstream: u.spec.Name, Cause: u.mask.Error(why), Stderr: stderr}
}
