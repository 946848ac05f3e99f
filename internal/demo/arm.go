package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/record"
)

// startTimeout is how long a server may take to start and list its tools.
const startTimeout = 30 * time.Second

// arm holds the connections of one of the two runs: by the name of a server, or under "" the
// connection to mcpschedd, which leads to all servers.
type arm map[string]*peer

// open starts a process for each connection. commands maps the name of a connection to the
// arguments of its process.
func (o Options) open(ctx context.Context, commands map[string][]string) (arm, error) {
	a := arm{}
	for name, args := range commands {
		p, err := o.connect(ctx, args)
		if err != nil {
			a.close()
			return nil, err
		}
		a[name] = p
	}
	return a, nil
}

// close closes the connections and waits for their processes. Errors no longer matter then.
func (a arm) close() {
	for _, p := range a {
		p.client.Close()
	}
}

// call makes a call on the connection for its server. A call without a server is to one of
// mcpschedd's own tools.
func (a arm) call(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	p, name := a[c.Server], c.Tool
	if p == nil {
		p, name = a[""], c.Server+"__"+c.Tool
	}
	r, err := p.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: c.Args}})
	return r, p.explain(err)
}

// stats reads mcpschedd's statistics of the run.
func (a arm) stats(ctx context.Context) (*record.Stats, error) {
	const uri = "mcpschedd://stats"
	r, err := a[""].client.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
	s := &record.Stats{}
	if err == nil && len(r.Contents) == 1 {
		text, _ := r.Contents[0].(mcp.TextResourceContents)
		err = json.Unmarshal([]byte(text.Text), s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, a[""].explain(err))
	}
	return s, nil
}

// answer is a call with its result and duration.
type answer struct {
	call
	Turn int           // from 1
	Text string        // text of the result
	How  string        // disposition in the result's _meta: hit, joined or fetched; "" if there is none
	Wait time.Duration // from sending the call
}

// runResult is the result of one run of a script.
type runResult struct {
	Start   time.Duration // from the first process to the last list of tools
	Answers []answer      // in the order of the script
	Waited  time.Duration // total wait; of calls made together, the slowest counts
	Stats   *record.Stats // mcpschedd's statistics; nil for the direct run
}

// play makes the calls of the turns with do, in order and with think times divided by speed. It
// calls after at the end of each turn. It stops at the first error, since arguments of later
// calls come from earlier answers.
func (p *runResult) play(ctx context.Context, turns []turn, speed float64, do func(context.Context, call) (*mcp.CallToolResult, error), after func(turn int)) error {
	read := agent{}
	for n, t := range turns {
		if err := sleep(ctx, shorten(t.Think, speed)); err != nil {
			return err
		}
		calls := t.Calls(read)
		answers, errs := make([]answer, len(calls)), make([]error, len(calls))
		var wg sync.WaitGroup
		sent := time.Now()
		for i, c := range calls {
			wg.Go(func() {
				r, err := do(ctx, c)
				answers[i] = answer{call: c, Turn: n + 1, Wait: time.Since(sent)}
				if errs[i] = err; err == nil {
					errs[i] = answers[i].parse(r)
				}
			})
		}
		wg.Wait()
		if len(calls) > 0 {
			p.Waited += time.Since(sent)
		}
		for i, a := range answers {
			if errs[i] != nil {
				return fmt.Errorf("turn %d: %s %s: %w", n+1, a.Server, a.Tool, errs[i])
			}
			read[a.as] = a.Text
			p.Answers = append(p.Answers, a)
		}
		after(n + 1)
	}
	return nil
}

// parse sets the answer to a result, which must be one text block of JSON.
func (a *answer) parse(r *mcp.CallToolResult) error {
	if len(r.Content) != 1 {
		return fmt.Errorf("got %d content blocks, want 1", len(r.Content))
	}
	text, ok := mcp.AsTextContent(r.Content[0])
	switch {
	case !ok:
		return fmt.Errorf("got a block of type %T, want text", r.Content[0])
	case r.IsError:
		return fmt.Errorf("tool error: %s", text.Text)
	case !json.Valid([]byte(text.Text)):
		return fmt.Errorf("got invalid JSON: %.40q", text.Text)
	}
	a.Text = text.Text
	if r.Meta != nil {
		a.How, _ = r.Meta.AdditionalFields["mcpschedd/disposition"].(string)
	}
	return nil
}

// peer is a server process and the client connected to it.
type peer struct {
	client *client.Client
	stderr bytes.Buffer // complete once the process has ended
}

// connect starts the executable with args, initializes the session and lists the tools. It drops
// OTEL_ variables, so that the demo is not exported to the user's collector.
func (o Options) connect(ctx context.Context, args []string) (*peer, error) {
	p := &peer{}
	p.client = client.NewClient(transport.NewStdioWithOptions(o.Executable, nil, args,
		transport.WithCommandFunc(func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(command, args...)
			cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(strings.ToUpper(v), "OTEL_") })
			cmd.Env, cmd.Stderr = append(cmd.Env, speedVariable+"="+o.speed()), &p.stderr
			return cmd, nil
		}),
	))
	// The process is not bound to ctx, whose end would kill the proxy and orphan its servers.
	// Close ends it in order.
	err := p.client.Start(context.WithoutCancel(ctx))
	if err == nil {
		if err = p.initialize(ctx); err != nil {
			p.client.Close()
			err = p.explain(err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(o.Executable), strings.Join(args, " "), err)
	}
	return p, nil
}

func (p *peer) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcpschedd-demo", Version: "1"}
	if _, err := p.client.Initialize(ctx, hello); err != nil {
		return err
	}
	_, err := p.client.ListTools(ctx, mcp.ListToolsRequest{})
	return err
}

// explain adds the last line of the process's stderr to the error of a lost connection.
func (p *peer) explain(err error) error {
	if !errors.Is(err, transport.ErrTransportClosed) {
		return err
	}
	p.client.Close() // waits for the process, which completes stderr
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}
