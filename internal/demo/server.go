package demo

import (
	"cmp"
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

	"mcpschedd/internal/jsonrpc"
)

const (
	// UpstreamCommand is the hidden command that runs one of the demo's servers:
	// mcpschedd demo-upstream tracker|files.
	UpstreamCommand = "demo-upstream"
	// speedVariable is the environment variable that passes [Options.Speed] to the servers.
	speedVariable = "MCPSCHEDD_DEMO_SPEED"
)

// The two servers.
const (
	tracker = "tracker" // an issue tracker with reads and writes
	files   = "files"   // the source tree of the project
)

// RunUpstream runs the hidden command demo-upstream: it serves the named server until in ends or
// ctx is done. in should use the poller, as a blocking read can delay Go's garbage collector (Go
// 1.26), which would appear as a wait.
func RunUpstream(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	speed, err := strconv.ParseFloat(cmp.Or(os.Getenv(speedVariable), "1"), 64)
	if err != nil {
		return fmt.Errorf("%s: %w", speedVariable, err)
	}
	s, err := newUpstream(name, speed)
	if err != nil {
		return err
	}
	stdio := server.NewStdioServer(s)
	server.WithWorkerPoolSize(64)(stdio) // the default of five workers would queue concurrent calls
	if err := stdio.Listen(ctx, in, out); ctx.Err() == nil {
		return err
	}
	return nil
}

// newUpstream returns the named MCP server, which has the latencies of a remote service divided
// by speed.
func newUpstream(name string, speed float64) (*server.MCPServer, error) {
	s := server.NewMCPServer("mcpschedd-demo-"+name, "1", server.WithToolCapabilities(false), server.WithInputSchemaValidation())
	w := newWorld()
	for toolName, t := range w.Tools {
		if t.Server != name {
			continue
		}
		listed := mcp.NewToolWithRawSchema(toolName, t.Description, json.RawMessage(t.Schema))
		reads, writes, open := t.Reads, !t.Reads, false
		listed.Annotations = mcp.ToolAnnotation{ReadOnlyHint: &reads, DestructiveHint: &writes, IdempotentHint: &reads, OpenWorldHint: &open}
		s.AddTool(listed, func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			// Wait first, so that a call that is cancelled meanwhile has no effect.
			if err := sleep(ctx, shorten(w.latency(toolName, r.GetArguments()), speed)); err != nil {
				return nil, err
			}
			var args arguments
			err := r.BindArguments(&args)
			if err == nil {
				var result any
				if result, err = w.call(toolName, args); err == nil {
					return mcp.NewToolResultText(string(jsonrpc.Marshal(result))), nil
				}
			}
			return mcp.NewToolResultError(err.Error()), nil
		})
	}
	if len(s.ListTools()) == 0 {
		return nil, fmt.Errorf("server %q: want %q or %q", name, tracker, files)
	}
	return s, nil
}

// latency returns the unscaled latency of a call: the typical latency of the tool plus or minus
// a quarter. Equal calls have equal latencies in both runs. All are within 100-900 ms.
func (w *world) latency(tool string, args map[string]any) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(tool))
	h.Write(jsonrpc.Marshal(args)) // with sorted keys
	jitter := float64(h.Sum64()%1001)/1000 - 0.5
	return time.Duration(w.Tools[tool].MS*(1+jitter/2)+0.5) * time.Millisecond
}

// shorten divides an unscaled time by speed.
func shorten(d time.Duration, speed float64) time.Duration {
	return time.Duration(float64(d) / speed)
}

// sleep waits for d, or until ctx is done and returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}
