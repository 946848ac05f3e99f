// Package demo plays one agent session twice at the same time, directly to two MCP servers and
// through mcpschedd, and compares the waits. It then makes a series of reads call by call and
// as one plan.
//
// Only the times are simulated. The servers are real MCP servers in processes of their own,
// connected over stdio. The proxy is this binary with an ordinary configuration file,
// config.toml. The agent takes every argument from an earlier answer. Think times are invented;
// world.toml says where the tools' latencies come from. [Options.Speed] shortens both, together
// with the times of the configuration.
//
//	err := demo.Run(ctx, demo.Options{Stdout: os.Stdout, Terminal: os.Stderr})
//
// Run fails if the answers of the two runs differ in a single byte. Waits are measured at the
// agent. The disposition of a call comes from its result's _meta, and the number of prefetches
// from mcpschedd's statistics.
//
// The demo is not a benchmark: it has no repetition, load or percentiles.
package demo

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/record"
)

// DefaultSpeed shortens the session from about a minute to 15 s.
const DefaultSpeed = 4

// startTimeout is how long a server may take to start and to list its tools.
const startTimeout = 30 * time.Second

// Options configure the demo.
type Options struct {
	Stdout     io.Writer // receives the report
	Terminal   io.Writer // receives a progress line that overwrites itself; nil for none
	JSON       bool      // write the report as one JSON object
	Speed      float64   // divides think and tool times and those of the configuration; default 4, real time is 1
	Executable string    // mcpschedd binary to run as proxy and servers; default: this binary
	Keep       string    // new folder for the state and record of mcpschedd's run; empty: removed at the end
}

// Run plays the session directly and through mcpschedd and reports both. It returns after all
// processes that it started have ended. If ctx is done it returns the error of ctx.
func Run(ctx context.Context, o Options) (err error) {
	o.Speed = cmp.Or(o.Speed, DefaultSpeed)
	if o.Executable == "" {
		if o.Executable, err = os.Executable(); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "mcpschedd-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	state := filepath.Join(dir, "state")
	if o.Keep != "" {
		if state, err = filepath.Abs(o.Keep); err == nil {
			err = os.MkdirAll(filepath.Dir(state), 0o700)
		}
		if err == nil {
			err = os.Mkdir(state, 0o700) // the state of an earlier run would change this run
		}
		if err != nil {
			return fmt.Errorf("--keep: want a new folder: %w", err)
		}
	}
	r, err := o.session(ctx, dir, state)
	if err == nil {
		r.Plan, err = o.plan(ctx, dir)
	}
	if err != nil {
		return cmp.Or(ctx.Err(), err) // err may only be a consequence of ctx
	}
	if o.JSON {
		e := json.NewEncoder(o.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.writeText(o.Stdout, o.Keep)
}

// session plays the script.
func (o Options) session(ctx context.Context, dir, state string) (*report, error) {
	direct, through, err := o.runBoth(ctx, dir, state, script, script)
	if o.Terminal != nil {
		fmt.Fprint(o.Terminal, "\r\x1b[K")
	}
	if err != nil {
		return nil, err
	}
	return newReport(direct, through, o.Speed)
}

// planComparison compares a series of reads, one call per turn as most agents do it, with one
// plan. It does not include think times.
type planComparison struct {
	Calls    int     `json:"calls"`
	DirectMS float64 `json:"direct_ms"` // total wait of the calls
	PlanMS   float64 `json:"plan_ms"`   // wait for the plan
}

// plan runs the comparison with new servers. The result of the plan must contain the answers of
// all single calls.
func (o Options) plan(ctx context.Context, dir string) (*planComparison, error) {
	o.Terminal = nil
	one, all, err := o.runBoth(ctx, dir, filepath.Join(dir, "plan"), survey(), surveyPlan())
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, []byte(all.Answers[0].Text)); err != nil {
		return nil, err
	}
	for _, a := range one.Answers[1:] { // the list is not an output of the plan
		if !strings.Contains(text.String(), a.Text) {
			return nil, fmt.Errorf("%s: the plan returned a different answer", a.short(70))
		}
	}
	return &planComparison{len(one.Answers), milliseconds(one.Waited), milliseconds(all.Waited)}, nil
}

// runBoth plays the turns of direct without mcpschedd and those of through with it, at the same
// time. This halves the duration, and other load on the machine affects both runs. It writes
// mcpschedd's configuration to dir. The first error ends both runs.
func (o Options) runBoth(ctx context.Context, dir, state string, direct, through []turn) (d, t runResult, err error) {
	file := filepath.Join(dir, "pipeline_config.toml")
	if err := os.WriteFile(file, o.configuration(state), 0o600); err != nil {
		return d, t, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	run := func(name string, commands map[string][]string, turns []turn, p *runResult) {
		wg.Go(func() {
			if err := o.run(ctx, commands, turns, p); err != nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	run("direct", map[string][]string{tracker: {UpstreamCommand, tracker}, files: {UpstreamCommand, files}}, direct, &d)
	run("mcpschedd", map[string][]string{"": {"serve", "--config", file}}, through, &t)
	wg.Wait()
	return d, t, context.Cause(ctx)
}

//go:embed config.toml
var config string

// times matches the values of keys that are times.
var times = regexp.MustCompile(`\b(\w+_(?:ms|ms_p50|s)) = ([0-9.]+)`)

// configuration returns the configuration of the proxy for one run: with times divided by Speed,
// this executable as the servers' command, and dir as the state directory.
func (o Options) configuration(dir string) []byte {
	text := times.ReplaceAllStringFunc(config, func(line string) string {
		key, value, _ := strings.Cut(line, " = ")
		unscaled, _ := strconv.ParseFloat(value, 64) // the pattern matches only numbers
		return fmt.Sprintf("%s = %f", key, unscaled/o.Speed)
	})
	server := fmt.Sprintf("command = %s\nenv = { %s = \"%g\" }", jsonrpc.Marshal(o.Executable), speedVariable, o.Speed)
	text = strings.ReplaceAll(text, `command = "mcpschedd"`, server)
	return fmt.Appendf(nil, "[server]\nstate_dir = %s\n\n%s", jsonrpc.Marshal(dir), text)
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

// caller makes a call.
type caller func(context.Context, call) (*mcp.CallToolResult, error)

// run starts a process for each connection, by the name of a server or "" for mcpschedd, and
// plays turns on them. It reads mcpschedd's statistics at the end.
func (o Options) run(ctx context.Context, commands map[string][]string, turns []turn, p *runResult) error {
	begin, clients := time.Now(), make(map[string]*client.Client)
	for name, args := range commands {
		c, err := o.connect(ctx, args)
		if err != nil {
			return fmt.Errorf("%s %s: %w", filepath.Base(o.Executable), strings.Join(args, " "), err)
		}
		defer c.Close() // waits for the process
		clients[name] = c
	}
	p.Start = time.Since(begin)
	proxy := clients[""]
	if proxy == nil {
		o.Terminal = nil
	}
	err := p.play(ctx, turns, o.Speed, o.Terminal, func(ctx context.Context, c call) (*mcp.CallToolResult, error) {
		to, name := clients[c.Server], c.Tool
		if to == nil {
			to, name = proxy, strings.TrimPrefix(c.Server+"__"+c.Tool, "__")
		}
		return to.CallTool(ctx, mcp.CallToolRequest{Params: mcp.CallToolParams{Name: name, Arguments: c.Args}})
	})
	if err != nil || proxy == nil {
		return err
	}
	return p.readStats(ctx, proxy)
}

func (p *runResult) readStats(ctx context.Context, proxy *client.Client) error {
	r, err := proxy.ReadResource(ctx, mcp.ReadResourceRequest{Params: mcp.ReadResourceParams{URI: "mcpschedd://stats"}})
	if err != nil || len(r.Contents) != 1 {
		return cmp.Or(err, errors.New("mcpschedd://stats: no figures"))
	}
	text, _ := r.Contents[0].(mcp.TextResourceContents)
	return json.Unmarshal([]byte(text.Text), &p.Stats)
}

// connect starts the executable with args, initializes the session and lists the tools. It drops
// OTEL_ variables, so that the demo is not exported to the user's collector.
func (o Options) connect(ctx context.Context, args []string) (*client.Client, error) {
	ofExport := func(v string) bool { return strings.HasPrefix(strings.ToUpper(v), "OTEL_") }
	command := func(_ context.Context, command string, _, args []string) (*exec.Cmd, error) {
		cmd := exec.Command(command, args...)
		cmd.Env = slices.DeleteFunc(os.Environ(), ofExport)
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%g", speedVariable, o.Speed))
		return cmd, nil
	}
	c := client.NewClient(transport.NewStdioWithOptions(o.Executable, nil, args, transport.WithCommandFunc(command)))
	// The process is not bound to ctx, as the end of ctx would kill the proxy and orphan its servers.
	// Close ends it in order.
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcpschedd-demo", Version: "1"}
	_, err := c.Initialize(ctx, hello)
	if err == nil {
		_, err = c.ListTools(ctx, mcp.ListToolsRequest{})
	}
	if err != nil {
		c.Close()
	}
	return c, err
}

// play makes the calls of the turns with do, in order and with think times divided by speed. It
// stops at the first error, since arguments of later calls come from earlier answers.
func (p *runResult) play(ctx context.Context, turns []turn, speed float64, terminal io.Writer, do caller) error {
	read := agent{}
	for n, t := range turns {
		if err := sleep(ctx, shorten(t.Think, speed)); err != nil {
			return err
		}
		answers, err := p.turn(ctx, t.Calls(read), do)
		if err != nil {
			return fmt.Errorf("turn %d: %w", n+1, err)
		}
		for _, a := range answers {
			a.Turn, read[a.as] = n+1, a.Text
			p.Answers = append(p.Answers, a)
		}
		if terminal != nil && len(answers) > 0 { // the last turn has no calls, and does not count
			fmt.Fprintf(terminal, "\r\x1b[KTurn %d of %d. Waited %.2f s", n+1, len(turns)-1, p.Waited.Seconds())
		}
	}
	return nil
}

// turn makes calls together, and returns their answers.
func (p *runResult) turn(ctx context.Context, calls []call, do caller) ([]answer, error) {
	answers, errs := make([]answer, len(calls)), make([]error, len(calls))
	var wg sync.WaitGroup
	sent := time.Now()
	for i, c := range calls {
		wg.Go(func() {
			r, err := do(ctx, c)
			answers[i] = answer{call: c, Wait: time.Since(sent)}
			if err == nil {
				err = answers[i].parse(r)
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s %s: %w", c.Server, c.Tool, err)
			}
		})
	}
	wg.Wait()
	if len(calls) > 0 {
		p.Waited += time.Since(sent)
	}
	return answers, errors.Join(errs...)
}

// parse sets the answer to a result, which must be one text block.
func (a *answer) parse(r *mcp.CallToolResult) error {
	if len(r.Content) != 1 {
		return fmt.Errorf("got %d content blocks, want 1", len(r.Content))
	}
	text, ok := mcp.AsTextContent(r.Content[0])
	if !ok || r.IsError {
		return fmt.Errorf("got %s, want a text", jsonrpc.Marshal(r.Content[0]))
	}
	a.Text = text.Text
	if r.Meta != nil {
		a.How, _ = r.Meta.AdditionalFields["mcpschedd/disposition"].(string)
	}
	return nil
}
