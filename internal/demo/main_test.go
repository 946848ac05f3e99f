package demo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/internal/demo"
)

const (
	// pidsVariable names a folder in which every child leaves a file named
	// for its process.
	pidsVariable = "MCPSCHEDD_TEST_PIDS"
	// proxyVariable says how the small proxy below misbehaves.
	proxyVariable = "MCPSCHEDD_TEST_PROXY"
)

// TestMain lets the test binary stand in for mcpschedd: its hidden command is
// the real thing, its serve a small working proxy.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || (os.Args[1] != demo.UpstreamCommand && os.Args[1] != "serve") {
		os.Exit(m.Run())
	}
	if dir := os.Getenv(pidsVariable); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var err error
	if os.Args[1] == "serve" {
		err = serve(context.Background(), os.Args[3])
	} else {
		err = demo.RunUpstream(context.Background(), os.Args[2], os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// smallStats is what the small proxy says of itself.
const smallStats = `{"uptime_s":1,"totals":{"calls":20,"served_stored":1,"joined":0,"fetched":19,"upstream_amplification":1.05,
"prefetch":{"issued":1,"open":1,"used":1,"late":0,"wasted":{"expired":0,"invalidated":0}},"tool_ms_hidden_prefetch":0.2,"declined":{"low_probability":3}}}`

// runPlan runs a list of issues and, for each of the first, what comes after it.
func runPlan(ctx context.Context, tools map[string]server.ToolHandlerFunc, r mcp.CallToolRequest, mode string) (*mcp.CallToolResult, error) {
	text := func(tool string, args any) (string, error) {
		call := mcp.CallToolRequest{}
		call.Params.Name, call.Params.Arguments = tool, args
		result, err := tools[tool](ctx, call)
		if err != nil {
			return "", err
		}
		return result.Content[0].(mcp.TextContent).Text, nil
	}
	steps := r.GetArguments()["steps"].([]any)
	step := func(i int, member string) any { return steps[i].(map[string]any)[member] }
	list, err := text(step(0, "tool").(string), step(0, "arguments"))
	if err != nil {
		return nil, err
	}
	var found struct{ Items []struct{ Number int } }
	if err := json.Unmarshal([]byte(list), &found); err != nil {
		return nil, err
	}
	outputs := make(map[string][]json.RawMessage)
	for i := 1; i < len(steps); i++ {
		id := step(i, "id").(string)
		for _, item := range found.Items[:int(step(i, "max_items").(float64))] {
			answer, err := text(step(i, "tool").(string), map[string]any{"issue_number": item.Number})
			if err != nil {
				return nil, err
			}
			outputs[id] = append(outputs[id], json.RawMessage(answer))
		}
		if mode == "swap" {
			slices.Reverse(outputs[id])
		}
	}
	return mcp.NewToolResultJSON(map[string]any{"outputs": outputs})
}

// serve aggregates the upstreams of a configuration file: upstream__tool,
// nothing stored.
func serve(ctx context.Context, file string) error {
	var config struct {
		Server struct {
			StateDir string `toml:"state_dir"`
		}
		Upstreams map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		}
	}
	if _, err := toml.DecodeFile(file, &config); err != nil {
		return err
	}
	mode := os.Getenv(proxyVariable)
	if mode == "die" {
		return fmt.Errorf("no such luck")
	}
	if v, told := os.LookupEnv("OTEL_TRACES_EXPORTER"); told {
		return fmt.Errorf("told where the user's traces go: %s", v)
	}
	if kept := mode == "kept" && filepath.IsAbs(config.Server.StateDir); !kept && !strings.HasPrefix(config.Server.StateDir, filepath.Dir(file)) {
		return fmt.Errorf("state_dir: got %q, want it beside %q", config.Server.StateDir, file)
	}
	s := server.NewMCPServer("small", "1", server.WithToolCapabilities(false), server.WithResourceCapabilities(false, false))
	s.AddResource(mcp.NewResource("mcpschedd://stats", "stats"), func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		if mode == "mute" {
			return nil, fmt.Errorf("no comment")
		}
		return []mcp.ResourceContents{mcp.TextResourceContents{URI: "mcpschedd://stats", Text: smallStats}}, nil
	})
	tools := make(map[string]server.ToolHandlerFunc)
	s.AddTool(mcp.NewTool("execute_tool_plan"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return runPlan(ctx, tools, r, mode)
	})
	for name, u := range config.Upstreams {
		var env []string
		for k, v := range u.Env {
			env = append(env, k+"="+v)
		}
		c, err := client.NewStdioMCPClient(u.Command, env, u.Args...)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
			return err
		}
		list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return err
		}
		for _, t := range list.Tools {
			own := t.Name
			t.Name = name + "__" + own
			tools[t.Name] = func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				r.Params.Name = own
				r.Params.Meta = nil // it belongs to the other hop
				result, err := c.CallTool(ctx, r)
				if err != nil {
					return nil, err
				}
				switch text, _ := result.Content[0].(mcp.TextContent); {
				case own == "list_directory":
					result.Meta = mcp.NewMetaFromMap(map[string]any{"mcpschedd/disposition": "prefetched"})
				case own == "read_file" && mode == "tamper":
					text.Text = strings.Replace(text.Text, "package billing", "package Billing", 1)
					result.Content[0] = text
				}
				return result, nil
			}
			s.AddTool(t, tools[t.Name])
		}
	}
	return server.NewStdioServer(s).Listen(ctx, os.Stdin, os.Stdout)
}
