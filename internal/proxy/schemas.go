package proxy

import (
	"bytes"
	"log/slog"
	"sync"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/schema"
	"mcpschedd/internal/upstream"
)

// schemas are the input schemas of tools, compiled when they are first needed.
type schemas struct {
	log  *slog.Logger
	mu   sync.Mutex
	made map[target]compiled // of a tool, its upstream as member.known
}

// compiled is the input schema of a tool as it was listed.
type compiled struct {
	item   []byte
	schema *schema.Schema
	err    error // it cannot be read
}

func newSchemas(log *slog.Logger) *schemas {
	return &schemas{log: log, made: make(map[target]compiled)}
}

// of is the schema of a listed tool.
func (s *schemas) of(l *leased, item upstream.Item) compiled {
	t := target{l.member.known, item.Name}
	s.mu.Lock()
	c, known := s.made[t]
	s.mu.Unlock()
	if known && bytes.Equal(c.item, item.Raw) {
		return c
	}
	c = compiled{item: item.Raw}
	if c.schema, c.err = schema.Compile(jsonrpc.Get(item.Raw, "inputSchema")); c.err != nil {
		s.log.Info("tool neither run early nor checked in plans: its input schema cannot be read", "upstream", l.Name(), "tool", item.Name, "err", c.err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.made) >= modelsKept {
		clear(s.made)
	}
	s.made[t] = c
	return c
}
