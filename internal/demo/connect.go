package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// startWithin is how long a server may take until it has listed its tools.
const startWithin = 30 * time.Second

// desk is what the agent sits at: the connections to its MCP servers.
type desk struct {
	peers   map[string]*peer         // the script's server → the connection that leads there
	name    func(call) (tool string) // what that connection calls the tool
	proxy   *peer                    // mcpschedd; nil: there is none between
	start   time.Duration            // from the first process to the last list of tools
	closers []func()                 // run last to first
}

// openDirect connects to both upstreams, each in a process of its own.
func openDirect(ctx context.Context, o Options) (*desk, error) {
	d := &desk{peers: map[string]*peer{}, name: func(c call) string { return c.Tool }}
	begin := time.Now()
	for _, upstream := range []string{tracker, files} {
		p, err := o.connect(ctx, []string{UpstreamCommand, upstream}, speedVariable+"="+o.speed())
		if err != nil {
			d.close()
			return nil, err
		}
		d.peers[upstream] = p
		d.closers = append(d.closers, p.close)
	}
	d.start = time.Since(begin)
	return d, nil
}

// openKept is openThrough, of which what [Options.Keep] says stays.
func openKept(ctx context.Context, o Options) (*desk, error) { return o.openThrough(ctx, o.Keep) }

// openThrough connects to mcpschedd, configured with both upstreams.
func openThrough(ctx context.Context, o Options) (*desk, error) { return o.openThrough(ctx, "") }

// openThrough also says where the state of mcpschedd is to be; "": nothing of it stays.
func (o Options) openThrough(ctx context.Context, state string) (*desk, error) {
	dir, err := os.MkdirTemp("", "mcpschedd-demo-")
	if err != nil {
		return nil, err
	}
	d := &desk{peers: map[string]*peer{}, name: func(c call) string { return c.Server + "__" + c.Tool }}
	d.closers = append(d.closers, func() { os.RemoveAll(dir) })
	config, err := o.writeConfig(dir, state)
	if err != nil {
		d.close()
		return nil, err
	}
	begin := time.Now()
	p, err := o.connect(ctx, []string{"serve", "--config", config})
	if err != nil {
		d.close()
		return nil, err
	}
	d.start = time.Since(begin)
	d.closers = append(d.closers, p.close)
	d.proxy, d.peers[tracker], d.peers[files] = p, p, p
	return d, nil
}

// writeConfig writes the configuration under which mcpschedd runs the
// upstreams, with its state in dir too unless that is told.
func (o Options) writeConfig(dir, state string) (file string, err error) {
	state, err = filepath.Abs(cmp.Or(state, filepath.Join(dir, "state")))
	if err != nil {
		return "", err
	}
	text, err := o.configuration(state)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "pipeline_config.toml")
	return file, os.WriteFile(file, text, 0o600)
}

func (o Options) speed() string { return strconv.FormatFloat(o.Speed, 'g', -1, 64) }

// call makes one of the script's calls.
func (d *desk) call(ctx context.Context, c call) (*mcp.CallToolResult, error) {
	p := d.peers[c.Server]
	r, err := p.client.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: d.name(c), Arguments: c.Args}})
	return r, p.explain(err)
}

// readOnly reports whether the server says of the call's tool that it only reads.
func (d *desk) readOnly(c call) bool { return d.peers[c.Server].reads[d.name(c)] }

// close ends the connections and returns when their processes have ended.
func (d *desk) close() {
	for i := len(d.closers) - 1; i >= 0; i-- {
		d.closers[i]()
	}
	d.closers = nil
}

// peer is a server process and the client that speaks to it.
type peer struct {
	client *client.Client
	reads  map[string]bool // tool → it says that it only reads
	said   *tail           // on stderr
}

// connect starts the executable with args and env added to ours, and does
// what any client does first: shake hands, list the tools.
func (o Options) connect(ctx context.Context, args []string, env ...string) (*peer, error) {
	said := &tail{}
	p := &peer{said: said, reads: map[string]bool{}, client: client.NewClient(transport.NewStdioWithOptions(o.Executable, env, args,
		transport.WithCommandFunc(func(_ context.Context, command string, env, args []string) (*exec.Cmd, error) {
			cmd := exec.Command(command, args...)
			cmd.Env = append(private(os.Environ()), env...)
			cmd.Stderr = said // by the transport's own way its end may be lost
			apart(cmd)
			return cmd, nil
		}),
	))}
	// The process outlives ctx: close ends it in order, where the end of ctx
	// would kill the proxy and leave its upstreams alone.
	err := p.client.Start(context.WithoutCancel(ctx))
	if err == nil {
		within, cancel := context.WithTimeout(ctx, startWithin)
		defer cancel()
		hello := mcp.InitializeRequest{}
		hello.Params.ClientInfo = mcp.Implementation{Name: "mcpschedd-demo", Version: "1"}
		if _, err = p.client.Initialize(within, hello); err == nil {
			err = p.listTools(within)
		}
		if err != nil {
			p.close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(o.Executable), strings.Join(args, " "), p.explain(err))
	}
	return p, nil
}

// private is an environment without what would have the demo's proxy tell the user's
// collector of calls that nobody made.
func private(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(strings.ToUpper(v), "OTEL_") })
}

// listTools asks which tools there are, and notes which of them only read.
func (p *peer) listTools(ctx context.Context) error {
	list, err := p.client.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	for _, t := range list.Tools {
		p.reads[t.Name] = t.Annotations.ReadOnlyHint != nil && *t.Annotations.ReadOnlyHint
	}
	return nil
}

// close ends the process. How it exits after its work is done decides nothing.
func (p *peer) close() { p.client.Close() }

// explain adds to the loss of the connection what the process said last, which is
// all there when it has ended.
func (p *peer) explain(err error) error {
	if !errors.Is(err, transport.ErrTransportClosed) {
		return err
	}
	p.close()
	if last := p.said.lastLine(); last != "" {
		return fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte // at most 4 KiB
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - 4096; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := bytes.TrimSpace(t.buf)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}
