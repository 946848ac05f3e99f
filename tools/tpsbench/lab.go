package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/tools/launch"
)

// cell is a proxy with its servers, in processes and a folder of their own. The tasks of an arm
// are done there in sequence, in one session.
type cell struct {
	client *client.Client
	dir    string
	tools  []Tool
}

// servers are the upstreams of a configuration of mcpschedd; {{dir}} in it stands for the working
// folder.
type servers struct {
	text     string
	self     string        // this program
	distance time.Duration // simulated delay of each server; 0 for none
}

// settings returns the configuration of an arm's proxy in a folder.
func (s servers) settings(arm Arm, dir string) (launch.Table, error) {
	var parsed struct{ Upstreams map[string]map[string]any }
	quoted, _ := json.Marshal(dir)
	if _, err := toml.Decode(strings.ReplaceAll(s.text, directory, string(bytes.Trim(quoted, `"`))), &parsed); err != nil {
		return nil, err
	}
	if len(parsed.Upstreams) == 0 {
		return nil, errors.New("no [upstreams.NAME]")
	}
	for _, u := range parsed.Upstreams {
		command, ok := u["command"].(string)
		if s.distance > 0 && ok {
			args, _ := u["args"].([]any)
			u["command"], u["args"] = s.self, append([]any{"distance", s.distance.String(), command}, args...)
		}
	}
	tools, mode := "all", "off"
	if arm.Strategy == find {
		tools = "search"
	}
	if arm.Prefetch {
		mode = "on"
	}
	return launch.Table{
		"server":     launch.Table{"state_dir": filepath.Join(dir, ".state"), "name_style": "always", "startup_wait": "60s", "tools": tools},
		"enrichment": launch.Table{"mode": mode},
		"plan":       launch.Table{"enabled": arm.Schedule == plan, "mutations": "allow"},
		"upstreams":  parsed.Upstreams,
	}, nil
}

// openCell starts a proxy for an arm.
func openCell(ctx context.Context, bin string, s servers, arm Arm, dir string) (*cell, error) {
	if err := makeWorld(dir); err != nil {
		return nil, err
	}
	settings, err := s.settings(arm, dir)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.toml")
	if err := launch.Configure(config, settings); err != nil {
		return nil, err
	}
	c, err := launch.Client(ctx, []string{bin, "serve", "--config", config}, "", filepath.Join(dir, "proxy.log"),
		client.WithElicitationHandler(agreeing{}), client.WithProtocolVersion("2025-11-25"))
	if err != nil {
		return nil, err
	}
	return newCell(ctx, c, dir)
}

// newCell returns a cell with a connection to a proxy.
func newCell(ctx context.Context, proxy *client.Client, dir string) (*cell, error) {
	c := &cell{client: proxy, dir: dir}
	list, err := proxy.ListTools(ctx, mcp.ListToolsRequest{})
	if err == nil {
		var data []byte
		if data, err = json.Marshal(list.Tools); err == nil {
			err = json.Unmarshal(data, &c.tools)
		}
	}
	if err == nil && len(c.tools) == 0 {
		err = errors.New("the servers have no tools")
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cell) close() { c.client.Close() }

// agreeing accepts every call in place of a user.
type agreeing struct{}

func (agreeing) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{}}}, nil
}

// call returns the part of a result that the model gets: the structured content, if there is any,
// else the text.
func (c *cell) call(ctx context.Context, name string, args json.RawMessage) (string, bool, error) {
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = name, args
	result, err := c.client.CallTool(ctx, request)
	if err != nil {
		if ctx.Err() != nil || strings.Contains(err.Error(), "closed") {
			return "", true, err
		}
		return err.Error(), true, nil // errors of the protocol, such as an unknown tool, are passed to the model
	}
	if result.StructuredContent != nil && !result.IsError {
		data, err := json.Marshal(result.StructuredContent)
		return string(data), false, err
	}
	var texts []string
	for _, content := range result.Content {
		if text, ok := content.(mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return cmp.Or(strings.Join(texts, "\n"), "(nothing that is text)"), result.IsError, nil
}

// stats returns the proxy's statistics since its start.
func (c *cell) stats(ctx context.Context) (prefetch, error) {
	request := mcp.ReadResourceRequest{}
	request.Params.URI = "mcpschedd://stats"
	result, err := c.client.ReadResource(ctx, request)
	if err != nil {
		return prefetch{}, err
	}
	var stats struct {
		Totals struct {
			Stored   int `json:"served_stored"`
			Prefetch struct{ Dispatched, Used int }
		}
	}
	for _, content := range result.Contents {
		if text, ok := content.(mcp.TextResourceContents); ok {
			err = json.Unmarshal([]byte(text.Text), &stats)
		}
	}
	p := stats.Totals.Prefetch
	return prefetch{p.Dispatched, p.Used, stats.Totals.Stored}, err
}

func (p prefetch) minus(before prefetch) prefetch {
	return prefetch{p.Sent - before.Sent, p.Used - before.Used, p.Stored - before.Stored}
}
