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
	// Blocking, the SDK's own way of reading may stop for minutes (Go 1.26).
	in, out, err := launch.Stdio()
	if err != nil {
		return err
	}
	return serveSDK(context.Background(), in, out)
}

// serveSDK is the upstream's tools on mcp-go's server. It takes about the time that an answer takes a server in the field.
func serveSDK(ctx context.Context, in io.Reader, out io.Writer) error {
	s := server.NewMCPServer("bench", "1", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("blob", mcp.WithNumber("size", mcp.Required())), blobTool())
	clock := &span{}
	s.AddTool(mcp.NewTool("sleep", mcp.WithNumber("ms", mcp.Required())), sleepTool(clock))
	s.AddTool(mcp.NewTool("span"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(clock.take()), nil
	})
	return launch.Serve(ctx, s, in, out)
}

// blobTool answers with texts that are made once: making them is no part of
// what a server does for a call.
func blobTool() server.ToolHandlerFunc {
	texts := make(map[int]string) // size → text, read only from here on
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

// unquoted is the string whose inside is s in JSON.
func unquoted(s string) string {
	var plain string
	if err := json.NewDecoder(strings.NewReader(`"` + s + `"`)).Decode(&plain); err != nil {
		return s // sourceLine is cut only at its end
	}
	return plain
}

func sleepTool(clock *span) server.ToolHandlerFunc {
	return func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		clock.begin()
		defer clock.end()
		return mcp.NewToolResultText("slept"), launch.Pause(ctx, time.Duration(r.GetInt("ms", 0))*time.Millisecond)
	}
}
