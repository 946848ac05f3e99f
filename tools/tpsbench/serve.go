package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/tools/dataset"
	"mcpschedd/tools/launch"
)

// distance simulates a distant server: it starts a command and forwards lines, each direction
// delayed by half the time.
func distance(ctx context.Context, far time.Duration, command []string, in io.Reader, out io.Writer) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		late(in, to, far/2)
		to.Close()
	}()
	late(from, out, far/2)
	return cmd.Wait()
}

// late copies lines in order, each with a delay.
func late(in io.Reader, out io.Writer, by time.Duration) {
	type line struct {
		text []byte
		due  time.Time
	}
	lines := make(chan line, 1000)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(in); ; {
			text, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line{text, time.Now().Add(by)}
		}
	}()
	broken := false
	for l := range lines {
		time.Sleep(time.Until(l.due))
		if !broken {
			_, err := out.Write(l.text)
			broken = err != nil // the rest is dropped, so that the reader ends
		}
	}
}

// recorded returns a server with the tools of a list, and the answers and latencies of earlier
// runs, except those of calls in plans.
func recorded(tools []Tool, runs []Run, prefix string) *server.MCPServer {
	type answer struct {
		text   string
		failed bool
		took   time.Duration
	}
	answers := make(map[string]answer) // tool and arguments → last answer
	for _, r := range runs {
		asked, took := make(map[string]string), make(map[string]time.Duration)
		for _, c := range r.Calls {
			took[c.ID] = seconds(c.Took)
		}
		for _, m := range r.Messages {
			for _, c := range m.Calls {
				name, args := c.target()
				asked[c.ID] = strings.TrimPrefix(name, prefix) + canonical(args)
			}
			if key := asked[m.CallID]; m.Role == toolRole && key != "" {
				text, failed := strings.CutPrefix(m.Content, failure)
				answers[key] = answer{text, failed, took[m.CallID]}
			}
		}
	}
	s := server.NewMCPServer("recorded", "1", server.WithToolCapabilities(false))
	for _, t := range tools {
		s.AddTool(mcp.NewToolWithRawSchema(t.Name, t.Description, t.Schema), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			args, _ := json.Marshal(r.Params.Arguments)
			a, ok := answers[t.Name+canonical(args)]
			if !ok {
				return mcp.NewToolResultError("nothing of this was recorded"), nil
			}
			launch.Pause(ctx, a.took)
			if a.failed {
				return mcp.NewToolResultError(a.text), nil
			}
			return mcp.NewToolResultText(a.text), nil
		})
	}
	return s
}

// canonical returns JSON in which equal values are equal texts.
func canonical(data []byte) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// readTools reads a list of tools: a response to tools/list or its array, or the file of
// LiveMCPBench, which has the lists of many servers.
func readTools(name string) ([]Tool, error) {
	var data json.RawMessage
	if err := dataset.JSON(name, &data); err != nil {
		return nil, err
	}
	var one struct{ Tools []Tool }
	if json.Unmarshal(data, &one) == nil && one.Tools != nil {
		return one.Tools, nil
	}
	var many []struct {
		Tools map[string]struct{ Tools []Tool }
	}
	var tools []Tool
	seen := make(map[string]bool)
	if json.Unmarshal(data, &many) == nil {
		for _, s := range many {
			for _, list := range s.Tools {
				for _, t := range list.Tools {
					if !seen[t.Name] {
						seen[t.Name], tools = true, append(tools, t)
					}
				}
			}
		}
	}
	if len(tools) == 0 && (json.Unmarshal(data, &tools) != nil || len(tools) == 0 || tools[0].Name == "") {
		return nil, fmt.Errorf("%s: want a list of tools", name)
	}
	return tools, nil
}
