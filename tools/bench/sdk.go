package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/tools/launch"
)

func sdkMain([]string) error {
	// With blocking descriptors the SDK's reads may stop for minutes (Go 1.26).
	in, out, err := launch.Stdio()
	if err != nil {
		return err
	}
	return serveSDK(context.Background(), in, out)
}

// serveSDK serves the upstream's tools with mcp-go. It takes about as long for an answer as a real
// server.
func serveSDK(ctx context.Context, in io.Reader, out io.Writer) error {
	s := server.NewMCPServer("bench", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("blob", mcp.WithNumber("size", mcp.Required())), blobTool())
	s.AddTool(mcp.NewTool("sleep", mcp.WithNumber("ms", mcp.Required())), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("slept"), launch.Pause(ctx, time.Duration(r.GetInt("ms", 0))*time.Millisecond)
	})
	return launch.Serve(ctx, s, in, out)
}

// blobTool answers with texts that are created once, as that is not part of the cost of a call.
func blobTool() server.ToolHandlerFunc {
	texts := make(map[int]string) // size → text; only read from here on
	for _, size := range sizes {
		texts[size] = unquoted(text(size))
	}
	return func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		answer, ok := texts[r.GetInt("size", -1)]
		if !ok {
			return mcp.NewToolResultError("no text of this size is measured"), nil
		}
		return mcp.NewToolResultText(answer), nil
	}
}

// unquoted returns the content of the JSON string for s.
func unquoted(s string) string {
	var plain string
	if err := json.NewDecoder(strings.NewReader(`"` + s + `"`)).Decode(&plain); err != nil {
		return s // sourceLine is cut only at its end
	}
	return plain
}
