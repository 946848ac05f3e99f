package upstream

import (
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// defaultLevel is the log level of a session that named none, once another session of
// the instance has: the level that the server had before cannot be asked for.
const defaultLevel = "info"

// KnownLevel reports whether a log level is one of MCP's.
func KnownLevel(level string) bool {
	return mcp.LoggingLevel(level).ShouldSendTo(mcp.LoggingLevelDebug)
}

// MostVerbose returns the level of those that asks for most, "" if none is known.
func MostVerbose(levels ...string) (most string) {
	for _, level := range levels {
		if KnownLevel(level) && (most == "" || mcp.LoggingLevel(most).ShouldSendTo(mcp.LoggingLevel(level))) {
			most = level
		}
	}
	return most
}

// SetLevel asks the server for log messages from level on, now and after a
// restart. On a shared instance the server is told the most verbose level that a
// session wants.
func (l *Lease) SetLevel(level string) {
	if !KnownLevel(level) {
		return
	}
	l.in.leases.update(l, func(w *wishes) { w.level = level })
	l.in.levelChanged()
}

// Admits reports whether a log message with these params is for a client that wants
// those from level on; "": what it last set. The server of a single session is taken
// at its word, and nothing is kept back for a level that is none of MCP's.
func (l *Lease) Admits(level string, params []byte) bool {
	if !l.mixed {
		return true
	}
	if level == "" {
		level = l.in.leases.update(l, func(*wishes) {}).level
	}
	if level == "" {
		if c := l.in.live(); c == nil || c.level.told.Load() == nil {
			return true
		}
		level = defaultLevel
	}
	own := text(jsonrpc.Get(params, "level"))
	return !KnownLevel(own) || !KnownLevel(level) || mcp.LoggingLevel(own).ShouldSendTo(mcp.LoggingLevel(level))
}

// toldLevel is the log level that a server was told over one connection.
type toldLevel struct {
	told atomic.Pointer[string] // the last one; nil: none

	mu      sync.Mutex // held while one is told
	telling bool       // over HTTP: it has not answered that
}

// levelChanged tells the live connection the level that the sessions want now.
func (in *instance) levelChanged() {
	if c := in.live(); c != nil {
		in.tellLevel(c)
	}
}

// tellLevel tells a server the log level, if it is not the one it was told last.
// Over HTTP a later request may arrive earlier: there the next one waits for the
// answer.
func (in *instance) tellLevel(c *conn) {
	if offer := in.offer.Load(); c.stateless() || offer == nil || !offer.Has("logging") {
		return
	}
	c.level.mu.Lock()
	defer c.level.mu.Unlock()
	told := c.level.told.Load()
	level := in.leases.level(told != nil)
	if level == "" || told != nil && *told == level || c.level.telling {
		return
	}
	c.level.told.Store(&level)
	c.level.telling = c.http
	in.tell(c, nil, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'), func() {
		if c.http {
			c.level.mu.Lock()
			c.level.telling = false
			c.level.mu.Unlock()
			in.tellLevel(c)
		}
	})
}
