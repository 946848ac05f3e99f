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

// caller makes a call on whichever connection leads to its server.
type caller func(context.Context, call) (*mcp.CallToolResult, error)

// arm is one of the two ways in which the session is played. Each has processes of its own,
// so both begin with the same data.
type arm struct {
	peers  map[string]*peer // the script's server → the connection that leads there
	prefix bool             // whether that is mcpschedd, which names tools tracker__list_issues
}

// openDirect connects to both servers.
func (o Options) openDirect(ctx context.Context) (*arm, error) {
	a := &arm{peers: map[string]*peer{}}
	for _, name := range []string{tracker, files} {
		p, err := o.connect(ctx, []string{UpstreamCommand, name}, speedVariable+"="+o.speed())
		if err != nil {
			a.close()
			return nil, err
		}
		a.peers[name] = p
	}
	return a, nil
}

// openThrough connects to mcpschedd, which has both servers behind it, its configuration in
// dir and its state in another folder.
func (o Options) openThrough(ctx context.Context, dir, state string) (*arm, error) {
	file := filepath.Join(dir, "pipeline_config.toml")
	if err := os.WriteFile(file, o.configuration(state), 0o600); err != nil {
		return nil, err
	}
	p, err := o.connect(ctx, []string{"serve", "--config", file})
	if err != nil {
		return nil, err
	}
	return &arm{peers: map[string]*peer{tracker: p, files: p}, prefix: true}, nil
}

// close ends the connections and returns when their processes have ended.
func (a *arm) close() {
	for _, p := range a.peers {
		p.Close() // how a process exits after its work is done decides nothing
	}
}

func (a *arm) call(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	name := c.Tool
	if a.prefix {
		name = c.Server + "__" + name
	}
	p := a.peers[c.Server]
	r, err := p.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: c.Args}})
	return r, p.explain(err)
}

// stats is what mcpschedd has recorded of itself.
func (a *arm) stats(ctx context.Context) (*record.Stats, error) {
	const uri = "mcpschedd://stats"
	p := a.peers[tracker]
	r, err := p.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: uri}})
	if err == nil && len(r.Contents) != 1 {
		err = fmt.Errorf("got %d contents, want 1", len(r.Contents))
	}
	s := &record.Stats{}
	if err == nil {
		text, _ := r.Contents[0].(mcp.TextResourceContents)
		err = json.Unmarshal([]byte(text.Text), s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", uri, p.explain(err))
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

// played is one run of the script.
type played struct {
	Start   time.Duration // from the first process to the last list of tools
	Answers []answer      // in the order of the script
	Waited  time.Duration // for answers; of calls made together, for the slowest
}

// play runs the script in order through do, with think times divided by speed, and calls
// after when a turn is over. It stops at the first answer that is an error or cannot be
// read: the next arguments would come from it.
func (p *played) play(ctx context.Context, speed float64, do caller, after func(turn int)) error {
	read := agent{}
	for n, t := range script {
		if err := sleep(ctx, shorten(t.Think, speed)); err != nil {
			return err
		}
		calls := t.Calls(read)
		answers, errs := make([]answer, len(calls)), make([]error, len(calls))
		var wg sync.WaitGroup
		sent := time.Now()
		for i, c := range calls {
			wg.Go(func() { answers[i], errs[i] = ask(ctx, c, do) })
		}
		wg.Wait()
		p.Waited += time.Since(sent)
		for i, a := range answers {
			if errs[i] != nil {
				return fmt.Errorf("turn %d: %s %s: %w", n+1, a.Server, a.Tool, errs[i])
			}
			a.Turn = n + 1
			read[a.as] = a.Text
			p.Answers = append(p.Answers, a)
		}
		after(n + 1)
	}
	return nil
}

// ask makes one call and measures how long its answer takes.
func ask(ctx context.Context, c call, do caller) (answer, error) {
	a := answer{call: c}
	sent := time.Now()
	r, err := do(ctx, c)
	a.Wait = time.Since(sent)
	if err != nil {
		return a, err
	}
	if len(r.Content) != 1 {
		return a, fmt.Errorf("got %d content blocks, want 1", len(r.Content))
	}
	text, ok := mcp.AsTextContent(r.Content[0])
	switch {
	case !ok:
		return a, fmt.Errorf("got a block of type %T, want text", r.Content[0])
	case r.IsError:
		return a, fmt.Errorf("tool error: %s", text.Text)
	case !json.Valid([]byte(text.Text)):
		return a, fmt.Errorf("got no JSON: %.40q", text.Text)
	}
	a.Text = text.Text
	if r.Meta != nil {
		a.How, _ = r.Meta.AdditionalFields["mcpschedd/disposition"].(string)
	}
	return a, nil
}

// peer is a server process and the client that speaks to it.
type peer struct {
	*client.Client
	stderr bytes.Buffer // complete once the process has ended
}

// connect starts the executable with args, and env added to ours, and does what any client
// does first: shake hands, list the tools.
func (o Options) connect(ctx context.Context, args []string, env ...string) (*peer, error) {
	p := &peer{}
	p.Client = client.NewClient(transport.NewStdioWithOptions(o.Executable, env, args,
		transport.WithCommandFunc(func(_ context.Context, command string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(command, args...)
			cmd.Env, cmd.Stderr = append(private(os.Environ()), env...), &p.stderr
			apart(cmd)
			return cmd, nil
		}),
	))
	// The process outlives ctx: Close ends it in order, where the end of ctx would kill the
	// proxy and leave its servers alone.
	err := p.Start(context.WithoutCancel(ctx))
	if err == nil {
		if err = p.greet(ctx); err != nil {
			p.Close()
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
	if _, err := p.Initialize(ctx, hello); err != nil {
		return err
	}
	_, err := p.ListTools(ctx, mcp.ListToolsRequest{})
	return err
}

// private is an environment without what would have the demo's proxy tell the user's
// collector of calls that are only played.
func private(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(strings.ToUpper(v), "OTEL_") })
}

// explain adds to the loss of a connection what the process said last.
func (p *peer) explain(err error) error {
	if !errors.Is(err, transport.ErrTransportClosed) {
		return err
	}
	p.Close() // it has ended then, and said all
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}
