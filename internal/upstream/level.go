package upstream

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
)

// defaultLevel is the log level of a session that named none on an instance whose level
// another has changed: what the server's own was cannot be asked.
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
	l.in.mu.Lock()
	l.level = level
	l.in.mu.Unlock()
	l.in.tellLevel()
}

// Admits reports whether a log message with these params is for a client that wants
// those from level on; "": what it last set. The server of a single session is taken
// at its word, and nothing is kept back for a level that is none of MCP's.
func (l *Lease) Admits(level string, params []byte) bool {
	if !l.mixed {
		return true
	}
	if level == "" {
		l.in.mu.Lock()
		level = l.level
		l.in.mu.Unlock()
	}
	if level == "" {
		if c := l.in.live.Load(); c == nil || c.told.Load() == nil {
			return true
		}
		level = defaultLevel
	}
	own := text(jsonrpc.Get(params, "level"))
	return !KnownLevel(own) || !KnownLevel(level) || mcp.LoggingLevel(own).ShouldSendTo(mcp.LoggingLevel(level))
}

// level returns the level to tell a server, "" to leave it as it is. changed says
// that it was told one before.
func (in *instance) level(changed bool) string {
	in.mu.Lock()
	defer in.mu.Unlock()
	var wanted []string
	for _, l := range in.leases {
		if l.level != "" {
			changed = true
			wanted = append(wanted, l.level)
		} else if !l.mute {
			wanted = append(wanted, defaultLevel)
		}
	}
	switch {
	case !changed:
		return ""
	case len(wanted) == 0:
		return defaultLevel
	}
	return MostVerbose(wanted...)
}

// tellLevel tells the live connection the level.
func (in *instance) tellLevel() {
	if c := in.live.Load(); c != nil {
		in.tellLevelTo(c)
	}
}

// tellLevelTo tells a server the log level, if it is not the one it was told last.
// Over HTTP a later request may arrive earlier: there the next one waits for the
// answer.
func (in *instance) tellLevelTo(c *conn) {
	if offer := in.offer.Load(); c.stateless() || offer == nil || !offer.Has("logging") {
		return
	}
	in.levelling.Lock()
	defer in.levelling.Unlock()
	told := c.told.Load()
	level := in.level(told != nil)
	if level == "" || told != nil && *told == level || c.telling {
		return
	}
	c.told.Store(&level)
	c.telling = c.http
	in.tell(c, nil, "logging/setLevel", append(jsonrpc.AppendString([]byte(`{"level":`), level), '}'), func() {
		if !c.http {
			return
		}
		in.levelling.Lock()
		c.telling = false
		in.levelling.Unlock()
		in.tellLevelTo(c)
	})
}

// tell sends a request of a lease, nil for none, whose answer changes nothing here,
// before it returns: what the session sends next must come after it. answered is
// called when the answer has come or is waited for no longer.
func (in *instance) tell(c *conn, of *Lease, method string, params []byte, answered func()) {
	ctx, cancel := context.WithTimeout(context.Background(), in.up.spec.StartTimeout)
	err := c.start(ctx, of, &Request{Method: method, Params: params}, func() {}, func(a answer) {
		cancel()
		if a.err == nil && a.msg.Error != nil {
			a.err = readError(a.msg.Error)
		}
		if a.err != nil {
			in.up.log.Debug("upstream did not take a setting", "upstream", in.up.spec.Name, "method", method, "err", a.err)
		}
		answered()
	})
	if err != nil {
		cancel() // the connection has ended
	}
}
