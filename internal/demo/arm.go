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

// startWithin is how long a server may take until it has listed its tools.
const startWithin = 30 * time.Second

// arm is one of the two ways in which calls are made: the connections by the script's name
// of a server, or under "" the one to mcpschedd, which leads to all of them.
type arm map[string]*peer

// open starts a process for each connection: what it leads to → its arguments.
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

// close ends the connections and returns when their processes have ended. How they exit
// after their work is done decides nothing.
func (a arm) close() {
	for _, p := range a {
		p.client.Close()
	}
}

// call makes a call where it leads to its server. One without a server is mcpschedd's own.
func (a arm) call(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	p, name := a[c.Server], c.Tool
	if p == nil {
		p, name = a[""], c.Server+"__"+c.Tool
	}
	r, err := p.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: c.Args}})
	return r, p.explain(err)
}

// stats is what mcpschedd has recorded of itself.
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

// answer is a call with what came back and how long that took.
type answer struct {
	call
	Turn int           // from 1
	Text string        // of the result, to the byte
	How  string        // what mcpschedd says it did: hit, joined or fetched; "" if it says nothing
	Wait time.Duration // as measured, from sending the call
}

// played is one run of a script.
type played struct {
	Start   time.Duration // from the first process to the last list of tools
	Answers []answer      // in the order of the script
	Waited  time.Duration // for answers; of calls made together, for the slowest
	Stats   *record.Stats // what mcpschedd has recorded of it; nil: it had no part in it
}

// play runs turns in order through do, with think times divided by speed, and calls after
// when a turn is over. It stops at the first answer that is an error or cannot be read: the
// next arguments would come from it.
func (p *played) play(ctx context.Context, turns []turn, speed float64, do func(context.Context, call) (*mcp.CallToolResult, error), after func(turn int)) error {
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
					errs[i] = answers[i].read(r)
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

// read takes over a result, which must be one text that is JSON.
func (a *answer) read(r *mcp.CallToolResult) error {
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
		return fmt.Errorf("got no JSON: %.40q", text.Text)
	}
	a.Text = text.Text
	if r.Meta != nil {
		a.How, _ = r.Meta.AdditionalFields["mcpschedd/disposition"].(string)
	}
	return nil
}

// peer is a server process and the client that speaks to it.
type peer struct {
	client *client.Client
	stderr bytes.Buffer // complete once the process has ended
}

// connect starts the executable with args, and does what any client does first: shake hands,
// list the tools. What is played is no work of the user's: their collector is not told of it.
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
	// The process outlives ctx: Close ends it in order, where the end of ctx would kill the
	// proxy and leave its servers alone.
	err := p.client.Start(context.WithoutCancel(ctx))
	if err == nil {
		if err = p.greet(ctx); err != nil {
			p.client.Close()
			err = p.explain(err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(o.Executable), strings.Join(args, " "), err)
	}
	return p, nil
}

func (p *peer) greet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcpschedd-demo", Version: "1"}
	if _, err := p.client.Initialize(ctx, hello); err != nil {
		return err
	}
	_, err := p.client.ListTools(ctx, mcp.ListToolsRequest{})
	return err
}

// explain adds to the loss of a connection what the process said last.
func (p *peer) explain(err error) error {
	if !errors.Is(err, transport.ErrTransportClosed) {
		return err
	}
	p.client.Close() // it has ended then, and said all
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}
