package upstream

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"mcpschedd/internal/secret"
)

// Spec is one upstream as configured, everything resolved.
type Spec struct {
	Name         string
	Command      Command       // a process; its Path is empty for a server over HTTP
	URL          string        // a server over HTTP; "" for a process
	Header       http.Header   // sent with every HTTP request; never shown
	SSE          bool          // speak the HTTP+SSE transport of 2024-11-05 without trying the newer
	Shared       bool          // one instance for all sessions
	Unasking     bool          // of a shared one: it is told of nothing that its client could be asked for, as its sessions differ in that
	StartTimeout time.Duration // how long a call waits for a starting server
	MaxMessage   int           // bytes of one message from the server; 0 is 64 MiB
	Secrets      []string      // values of its environment that must never be shown, like those in Header and URL
	Unusable     error         // why it cannot be started at all (an unset variable); nil if it can
}

const defaultMaxMessage = 64 << 20 // bytes

// Options is what an upstream needs besides its Spec. Nil and zero work.
type Options struct {
	Log   *slog.Logger
	Guard *Guard // of its processes
	Store Store
	// Stderr gets what its processes write there, a line a write, without secrets; nil:
	// only the last lines are kept, for errors.
	Stderr io.Writer
	Dial   DialFunc // of a server over HTTP; nil: over the network
	// After is closed once its predecessor of the same name has ended. Nothing is
	// started before that: two servers of one name may want the same port or lock.
	After <-chan struct{}
	// StopFast is closed when processes must end quickly: each is asked once, with a
	// short grace.
	StopFast <-chan struct{}
	// Invalidated is called when what the server answers may have changed by something
	// else than a request sent through here: before anything that comes later on
	// the same connection is acted on, and before a session can see it. The cause
	// is "handshake", "exit", "session" (lost, over HTTP), "gap" (in a stream),
	// "list_changed" or "resources/updated". What concerns a server alone, a handshake, an
	// exit and changed tools or prompts, is none before the first request to it. It is
	// called from any goroutine and must not block.
	Invalidated func(cause string)
	// WriteSettle is for how long after a request was given up, or its session has
	// ended, the server may still send messages about it; nil and 0: a minute.
	WriteSettle func() time.Duration
	// Asked is called when an instance's server asks its client something, before the
	// client is asked; the server does not say for which call. As Invalidated.
	Asked func(instance uint64, method string)
	// Changed is called when [Upstream.Standing] or what the server offers may have
	// changed. As Invalidated.
	Changed func()
}

// masker knows what of the server's configuration may be secret.
func (s *Spec) masker() *secret.Masker {
	values := append(secret.In(strings.Join(s.Command.Args, " ")), s.Secrets...)
	before := ""
	for _, arg := range s.Command.Args { // a value that no line of a shell has as one word, too
		for _, found := range secret.Find(arg, before) {
			if found.Name != "" {
				values = append(values, arg[found.From:found.To])
			}
		}
		before = arg
	}
	if s.URL != "" {
		values = append(values, secret.URL(s.URL)...)
	}
	for _, header := range s.Header {
		for _, value := range header {
			values = append(values, secret.Header(value)...)
		}
	}
	return secret.NewMasker(values...)
}
