package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

const (
	// UpstreamCommand is the hidden first argument with which the binary becomes one of
	// the demo's servers: mcpschedd demo-upstream tracker|files.
	UpstreamCommand = "demo-upstream"
	// speedVariable hands [Options.Speed] to them.
	speedVariable = "MCPSCHEDD_DEMO_SPEED"
)

// The two servers.
const (
	tracker = "tracker" // issues: listed, read, searched, and really changed
	files   = "files"   // the source tree that the issues are about
)

// RunUpstream is the hidden command demo-upstream: it serves the named server until in ends
// or ctx does, as fast as the environment says. in should be read through the poller: a
// blocking read can hold up a stop of the world (Go 1.26), and a stalled server would show
// as a wait.
func RunUpstream(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	speed := 1.0
	if s := os.Getenv(speedVariable); s != "" {
		var err error
		if speed, err = strconv.ParseFloat(s, 64); err == nil {
			err = checkSpeed(speed)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", speedVariable, err)
		}
	}
	s, err := newUpstream(name, speed)
	if err != nil {
		return err
	}
	stdio := server.NewStdioServer(s)
	server.WithWorkerPoolSize(64)(stdio) // the default of five workers would queue the calls of an eager client
	if err := stdio.Listen(ctx, in, out); ctx.Err() == nil {
		return err
	}
	return nil
}

// newUpstream returns the named MCP server, which answers as slowly as [latency] says,
// divided by speed.
func newUpstream(name string, speed float64) (*server.MCPServer, error) {
	offer := map[string]func(*world) []server.ServerTool{tracker: trackerTools, files: fileTools}[name]
	if offer == nil {
		return nil, fmt.Errorf("upstream %q: want %q or %q", name, tracker, files)
	}
	s := server.NewMCPServer("mcpschedd-demo-"+name, "1",
		server.WithToolCapabilities(false),
		server.WithInputSchemaValidation(),
		server.WithStrictInputSchemaDefault(),
		server.WithToolHandlerMiddleware(delay(speed)),
	)
	s.AddTools(offer(newWorld())...)
	return s, nil
}

// delay answers every call as late as a remote service would, before the call does
// anything: a call cancelled meanwhile has had no effect.
func delay(speed float64) server.ToolHandlerMiddleware {
	return func(next server.ToolHandlerFunc) server.ToolHandlerFunc {
		return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if err := sleep(ctx, shorten(latency(r.Params.Name, r.GetArguments()), speed)); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}
	}
}

// latency is how long the call takes in life: the tool's typical latency, a quarter more or
// less. The same call always takes the same time, in both runs, and all are within
// 100-900 ms.
//
// The typical latencies are the cost_model.latency_ms_p50 that meteora-pro/devboy-tools, the
// code behind "Tool-Aware Knapsack Enrichment via Provider-Annotated Value Models", gives
// GitHub's tools (crates/plugins/api/github/src/enricher.rs): get_issues 380, get_issue 180,
// get_issue_comments 280, update_issue 350. The files are a code host's, so that reading one
// counts as get_merge_request_diffs (360) and listing a directory as get_merge_request
// (220). The table has no search within one service; both searches stand midway between its
// list (380) and the web search (900) of crates/plugins/format-pipeline/src/tool_defaults.rs.
func latency(tool string, args map[string]any) time.Duration {
	typical := map[string]time.Duration{
		"list_issues":        380,
		"get_issue":          180,
		"get_issue_comments": 280,
		"search_issues":      640,
		"update_issue":       350,
		"list_directory":     220,
		"read_file":          360,
		"search_files":       640,
	}[tool] * time.Millisecond
	h := fnv.New64a()
	h.Write([]byte(tool))
	h.Write(compact(args)) // keys come sorted
	jitter := float64(h.Sum64()%1001)/1000 - 0.5
	return time.Duration(float64(typical) * (1 + jitter/2)).Round(time.Millisecond)
}

// shorten divides a time of life by speed.
func shorten(d time.Duration, speed float64) time.Duration {
	return time.Duration(float64(d) / speed)
}

// sleep waits for d, or less if ctx ends: then it returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tool joins a tool's description and its handler, which gets its arguments decoded and
// returns what is sent as JSON text, or what went wrong.
func tool[Args any](do func(Args) (any, error), name, description string, options ...mcp.ToolOption) server.ServerTool {
	options = append(options, mcp.WithDescription(description))
	return server.ServerTool{Tool: mcp.NewTool(name, options...), Handler: func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args Args
		err := r.BindArguments(&args)
		if err == nil {
			var result any
			if result, err = do(args); err == nil {
				return mcp.NewToolResultText(string(compact(result))), nil
			}
		}
		return mcp.NewToolResultError(err.Error()), nil
	}}
}

// hints are the annotations of a tool that changes nothing, or of one that does.
func hints(reads bool) mcp.ToolOption {
	writes, open := !reads, false
	return mcp.WithToolAnnotation(mcp.ToolAnnotation{
		ReadOnlyHint: &reads, DestructiveHint: &writes, IdempotentHint: &reads, OpenWorldHint: &open})
}

// compact is v as JSON on one line, with < and > as they are: source code is full of them.
// v is always one of our own types, or came as JSON.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
