package mcptest

import (
	"context"
	"fmt"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// Puppet is a server of the handshake era. The test answers the calls of its tool "work", cancelled or
// not. It has more than 15 fields because it embeds its server.
type Puppet struct {
	*Server
	Calls   chan jsonrpc.Message // calls of "work"
	Ended   chan jsonrpc.Message // notifications/cancelled
	Replies chan jsonrpc.Message // the client's responses, and its progress with them

	mu   sync.Mutex
	open map[string]chan []byte // raw id of a call → its result
}

// NewPuppet returns a puppet.
func NewPuppet() *Puppet {
	p := &Puppet{
		Calls: make(chan jsonrpc.Message, 4096), Ended: make(chan jsonrpc.Message, 4096), Replies: make(chan jsonrpc.Message, 16384),
		open: make(map[string]chan []byte),
	}
	p.Server = New(Options{
		Name: "puppet", Capabilities: `{"tools":{},"logging":{}}`,
		Tools:  []string{`{"name":"work","inputSchema":{"type":"object"}}`, `{"name":"rest","inputSchema":{"type":"object"}}`},
		Answer: p.answer, Heard: p.heard,
	})
	return p
}

// Log sends a log message.
func (p *Puppet) Log(level, data string) {
	p.Announce("notifications/message", fmt.Sprintf(`{"level":%q,"data":%q}`, level, data))
}

// Answer sends the result of a call.
func (p *Puppet) Answer(id, result []byte) {
	p.mu.Lock()
	open := p.open[string(id)]
	p.mu.Unlock()
	if open != nil {
		open <- result
		return
	}
	p.Say(string(jsonrpc.AppendResult(nil, id, result)))
}

func (p *Puppet) answer(ctx context.Context, m jsonrpc.Message) []byte {
	name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
	switch {
	case m.Method == "initialize" || m.Method == "tools/list":
		return nil
	case m.Method != "tools/call":
		return []byte("{}")
	case name != "work":
		return []byte(`{"content":[]}`)
	}
	open := make(chan []byte, 1)
	p.mu.Lock()
	p.open[string(m.ID)] = open
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, string(m.ID))
		p.mu.Unlock()
	}()
	p.Calls <- m
	select {
	case result := <-open:
		return result
	case <-ctx.Done():
		return nil
	}
}

func (p *Puppet) heard(m jsonrpc.Message) {
	switch {
	case m.Method == "notifications/cancelled":
		p.Ended <- m
	case m.IsResponse() || m.Method == "notifications/progress":
		p.Replies <- m
	}
}
