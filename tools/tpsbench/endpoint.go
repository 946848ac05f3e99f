package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mcpschedd/tools/launch"
)

// endpoint is a model over HTTP.
type endpoint struct {
	url     string // up to /v1
	api     string // openai or anthropic
	model   string
	key     string
	timeout time.Duration // of each attempt
	longest int           // maximum tokens of an answer
}

const (
	openAI, anthropic = "openai", "anthropic"

	tries      = 4
	mostAnswer = 16 << 20         // bytes
	longestGap = 30 * time.Second // maximum Retry-After that is waited for
)

// passing is a temporary error, after which the same request may succeed.
type passing struct {
	error
	after   time.Duration // requested by the server; 0 for none
	charged bool          // the request may have been charged nevertheless
}

// ask is the endpoint as a Model. It makes one attempt.
func (e *endpoint) ask(ctx context.Context, r Request) (Reply, error) {
	body, path, read := e.openAIBody(r), "/chat/completions", readOpenAI
	if e.api == anthropic {
		body, path, read = e.anthropicBody(r), "/messages", readAnthropic
	}
	data, err := e.post(ctx, path, body)
	if err != nil {
		return Reply{}, err
	}
	reply, err := read(data)
	if err != nil {
		return Reply{}, passing{error: fmt.Errorf("%s: an answer that cannot be used: %w", e.url, err), charged: true}
	}
	reply.count(r)
	return reply, nil
}

// patient repeats a request after a temporary error: no answer in time, 429, 5xx, or an invalid
// answer. pause is the time before the second attempt, and doubles.
func patient(model Model, pause time.Duration) Model {
	return func(ctx context.Context, r Request) (Reply, error) {
		pause := pause
		for try := 1; ; try++ {
			reply, err := model(ctx, r)
			var again passing
			if err == nil || !errors.As(err, &again) || try == tries || ctx.Err() != nil {
				return reply, err
			}
			if err := launch.Pause(ctx, max(pause, again.after)); err != nil {
				return Reply{}, err
			}
			pause *= 2
		}
	}
}

func (e *endpoint) post(ctx context.Context, path string, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if e.api == anthropic {
		req.Header.Set("X-Api-Key", e.key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	} else if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var reaching *net.OpError
		return nil, passing{error: err, charged: !errors.As(err, &reaching) || reaching.Op != "dial"}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, passing{error: fmt.Errorf("%s: %w", e.url, err), charged: true}
	case len(answer) > mostAnswer:
		return nil, fmt.Errorf("%s: an answer of over %d bytes", e.url, mostAnswer)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		after := min(time.Duration(max(seconds, 0))*time.Second, longestGap)
		return nil, passing{fmt.Errorf("%s: %s", e.url, resp.Status), after, false}
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s: %.300s", e.url, resp.Status, answer)
	}
	return answer, nil
}

// count counts tokens if the endpoint does not report them, or reports an impossible number.
func (reply *Reply) count(r Request) {
	if reply.In <= 0 {
		reply.In = tokens(r.Messages) + tokens(r.Tools)
	}
	if reply.Out <= 0 {
		reply.Out = tokens(reply.Message)
	}
}

// fields is a JSON object.
type fields = map[string]any

func (e *endpoint) openAIBody(r Request) fields {
	body := fields{"model": e.model, "messages": r.Messages, "max_tokens": e.longest}
	if len(r.Tools) > 0 {
		body["tools"], body["parallel_tool_calls"] = openAITools(r.Tools), !r.Serial
	}
	return body
}

// openAITools returns tools in the format of chat completions and trainers.
func openAITools(tools []Tool) (out []fields) {
	for _, t := range tools {
		out = append(out, fields{"type": "function", "function": fields{"name": t.Name, "description": t.Description, "parameters": t.Schema}})
	}
	return out
}

func readOpenAI(data []byte) (Reply, error) {
	var answer struct {
		Choices []struct {
			Message struct {
				Content *string
				Calls   []ToolCall `json:"tool_calls"`
			}
		}
		Usage struct {
			In  int `json:"prompt_tokens"`
			Out int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Reply{}, err
	}
	if len(answer.Choices) == 0 {
		return Reply{}, errors.New("no choices")
	}
	said := answer.Choices[0].Message
	m := Message{Role: assistant, Calls: said.Calls}
	if said.Content != nil {
		m.Content = *said.Content
	}
	return Reply{m, answer.Usage.In, answer.Usage.Out}, m.check()
}

// check returns what is invalid in a model's message. Arguments that are not JSON are no error
// here: the model gets the error of the tool.
func (m *Message) check() error {
	seen := make(map[string]bool)
	for i := range m.Calls {
		c := &m.Calls[i]
		if c.Function.Name == "" || c.ID == "" || seen[c.ID] {
			return errors.New("a tool call without a name, or an id of its own")
		}
		seen[c.ID], c.Type = true, "function"
	}
	return nil
}

// block is a part of a message of Anthropic's API.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
}

func (e *endpoint) anthropicBody(r Request) fields {
	type turn struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	}
	body := fields{"model": e.model, "max_tokens": e.longest}
	var turns []turn
	for _, m := range r.Messages {
		if m.Role == system {
			body["system"] = m.Content
			continue
		}
		one := turn{Role: m.Role}
		if m.Role == toolRole {
			one = turn{user, []block{{Type: "tool_result", ToolUseID: m.CallID, Content: m.Content}}}
		} else if strings.TrimSpace(m.Content) != "" {
			one.Content = []block{{Type: "text", Text: m.Content}}
		}
		for _, c := range m.Calls {
			input := json.RawMessage(c.Function.Arguments)
			if !isObject(input) {
				input = json.RawMessage("{}")
			}
			one.Content = append(one.Content, block{Type: "tool_use", ID: c.ID, Name: c.Function.Name, Input: input})
		}
		if last := len(turns) - 1; last >= 0 && turns[last].Role == one.Role { // the answers of one turn are one message
			turns[last].Content = append(turns[last].Content, one.Content...)
		} else {
			turns = append(turns, one)
		}
	}
	body["messages"] = turns
	if len(r.Tools) > 0 {
		var tools []fields
		for _, t := range r.Tools {
			tools = append(tools, fields{"name": t.Name, "description": t.Description, "input_schema": t.Schema})
		}
		body["tools"], body["tool_choice"] = tools, fields{"type": "auto", "disable_parallel_tool_use": r.Serial}
	}
	return body
}

func readAnthropic(data []byte) (Reply, error) {
	var answer struct {
		Content []block
		Usage   struct {
			In      int `json:"input_tokens"`
			Written int `json:"cache_creation_input_tokens"`
			Read    int `json:"cache_read_input_tokens"`
			Out     int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return Reply{}, err
	}
	if answer.Content == nil {
		return Reply{}, errors.New("no content")
	}
	m := Message{Role: assistant}
	for _, b := range answer.Content {
		switch b.Type {
		case "text":
			m.Content += b.Text
		case "tool_use":
			c := ToolCall{ID: b.ID}
			c.Function.Name, c.Function.Arguments = b.Name, string(b.Input)
			m.Calls = append(m.Calls, c)
		}
	}
	u := answer.Usage
	return Reply{m, u.In + u.Written + u.Read, u.Out}, m.check()
}

func isObject(data []byte) bool {
	return json.Valid(data) && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{"))
}
