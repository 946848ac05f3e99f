package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"mcpschedd/internal/deliver"
)

// Message is a message of a conversation, in the format of OpenAI's chat completions and of
// trainers.
type Message struct {
	Role    string     `json:"role"`
	Content string     `json:"content"`
	Calls   []ToolCall `json:"tool_calls,omitempty"`
	CallID  string     `json:"tool_call_id,omitempty"` // of a message of role tool: the call that it answers
}

// ToolCall is a call in a model's message.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"` // function
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON, unless the model ignores the schema
	} `json:"function"`
}

// Roles of messages.
const (
	system, user, assistant, toolRole = "system", "user", "assistant", "tool"
)

// Tool is the description of a tool for a model.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"inputSchema"`
}

// Kinds of requests. Only the scripted model uses them.
const (
	forCalls     = "calls"     // the next step of a task
	forSelection = "selection" // which tools
	forScore     = "score"     // judge: how good a selection is
	forRate      = "rate"      // judge: how much of the task was completed
)

// Request is a request to a model.
type Request struct {
	For      string
	Messages []Message
	Tools    []Tool
	Serial   bool // at most one call per turn
}

// Reply is the model's message, with the number of tokens.
type Reply struct {
	Message Message
	In, Out int
}

// Model is an endpoint, or the scripted one.
type Model func(ctx context.Context, r Request) (Reply, error)

// Price is in dollars per million tokens.
type Price struct{ In, Out float64 }

func (p Price) of(in, out int) float64 { return (float64(in)*p.In + float64(out)*p.Out) / 1e6 }

var errBudget = errors.New("-max-usd is used up")

// purse is the common budget of all models in a run.
type purse struct {
	most float64 // dollars; 0 for no limit

	mu       sync.Mutex
	spent    float64
	reserved float64 // dollars for requests in flight
}

// limit returns a model that reserves money before each request: a request is not sent if the cost
// of its longest possible answer exceeds the rest. If an endpoint charges more than reserved, its
// first such answer ends the run.
func (p *purse) limit(model Model, price Price, longest int) Model {
	return func(ctx context.Context, r Request) (Reply, error) {
		expected := price.of(tokens(r.Messages)+tokens(r.Tools), longest)
		p.mu.Lock()
		if p.most > 0 && p.spent+p.reserved+expected > p.most {
			p.mu.Unlock()
			return Reply{}, errBudget
		}
		p.reserved += expected
		p.mu.Unlock()
		reply, err := model(ctx, r)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.reserved -= expected
		if failed := (passing{}); errors.As(err, &failed) && failed.charged {
			p.spent += expected
		}
		p.spent += price.of(reply.In, reply.Out)
		return reply, err
	}
}

func (p *purse) total() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// tokens returns the number of tokens of a value as JSON.
func tokens(v any) int {
	data, err := json.Marshal(v)
	if err != nil || string(data) == "null" {
		return 0
	}
	return deliver.Tokens(data)
}

// catalogue lists the names and descriptions of tools.
func catalogue(tools []Tool) string {
	var b strings.Builder
	for _, t := range tools {
		text, _, _ := strings.Cut(t.Description, "\n")
		fmt.Fprintf(&b, "- %s: %s\n", t.Name, text)
	}
	return b.String()
}
