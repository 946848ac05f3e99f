package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/cobra"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/state"
	"mcpschedd/internal/valuemodel"
)

// callFlags are the flags of call.
type callFlags struct {
	config string
	json   bool
}

func callCommand() *cobra.Command {
	var o callFlags
	c := &cobra.Command{
		Use:   "call NAME/TOOL [KEY=VALUE... | JSON]",
		Short: "Call a tool of a server, and print the result",
		Long: `Calls a tool of a server, and prints the result. The call takes effect like any other.
If the daemon is running, it makes the call in a session of its own, in this directory,
with the servers that already run. Otherwise the server is started for the call, and
nothing is recorded or learned.

NAME is a server in the configuration, TOOL one of its tools under the server's own name;
NAME__TOOL and mcp__mcpschedd__NAME__TOOL, as clients see it, also work, and TOOL alone if
no other server has it. Each KEY=VALUE is an argument; VALUE is text, or JSON if the
tool's schema has another type for KEY. Or pass all arguments as one JSON object.`,
		Example: `  mcpschedd call files/read_text_file path=README.md
  mcpschedd call github/list_issues owner=golang repo=go perPage=3`,
		Args:              takes(1, -1, "NAME/TOOL"),
		ValidArgsFunction: completeUpstreams(&o.config),
		RunE: func(c *cobra.Command, words []string) error {
			return call(c.Context(), words, o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &o.config)
	c.Flags().BoolVar(&o.json, "json", false, "print the result unchanged, as JSON")
	return c
}

// call calls one tool of one upstream. On a terminal it says what it waits for.
func call(ctx context.Context, words []string, f callFlags, stdout, stderr io.Writer) error {
	c, err := load(f.config) // needs no state directory
	mistakes, _ := errors.AsType[*config.Error](err)
	if mistakes != nil {
		c, _, mistakes, err = loadServed(f.config, stateToRead)
	}
	if err != nil {
		return err
	}
	u, tool, err := toolToCall(c, words[0])
	if err := orMistakes(err, mistakes, c, u.Name, stderr); err != nil {
		return err
	}
	if isTerminal(stderr) {
		defer time.AfterFunc(time.Second, func() { say(stderr, "waiting for %s; press Ctrl-C to stop", u.Name) }).Stop()
	}
	result, err := callServed(ctx, c, u.Name, tool, words[1:])
	if err != nil {
		return err
	}
	return printResult(stdout, result, f.json)
}

// toolToCall returns the tool of a name that call was given, and its upstream.
func toolToCall(c *config.Config, word string) (u config.Upstream, _ string, err error) {
	word = withoutClientPrefix(c, word)
	name, tool, ok := strings.Cut(word, "/")
	if !ok { // the name that clients see
		name, tool, _ = strings.Cut(word, "__")
		if only := enabledNames(c); len(only) == 1 && !hasUpstream(c, name) {
			name, tool = only[0], word
		}
	}
	if err := checkEnabled(c, word); err != nil {
		return u, "", err
	}
	if len(c.Upstreams) == 0 {
		return u, "", noUpstream(c)
	}
	if name == "" || tool == "" { // as for explain, one server may be known to have it
		dir, err := stateToRead(c)
		if err != nil {
			return u, "", err
		}
		o := proxyOptions(ownWorkplace(), c, dir, slog.New(slog.DiscardHandler))
		at, known, err := findTool(lastKnowns(o.Upstreams), word)
		if err != nil {
			return u, "", cmp.Or(checkEnabled(c, word+"/"), err)
		}
		name, tool = at.name(), known
	}
	u, err = upstreamNamed(c, name)
	switch {
	case err != nil:
	case !u.Tools.Allows(tool):
		names := slices.DeleteFunc(slices.Clone(u.Tools.Allow), valuemodel.IsGlob)
		err = suggest(errors.New(leftOut(c, name, tool)), "", tool, names, "change that key to call it")
	case !u.In(ownWorkplace().dir()): // the daemon would refuse it
		err = hinted{misused{fmt.Errorf("server %q is only for sessions in %s", name, strings.Join(u.Folders, ", "))}, "call it from there, or change its folders"}
	}
	return u, tool, err
}

// callServed makes one call through the daemon or, if it is not running, through a temporary
// proxy.
func callServed(ctx context.Context, c *config.Config, name, tool string, words []string) (result json.RawMessage, err error) {
	log := slog.New(slog.DiscardHandler)
	if place, runs := daemonOf(c); runs {
		result, err = callOnce(ctx, func(ctx context.Context, in io.Reader, out io.Writer) error {
			return daemon.Connect(ctx, in, out, daemon.Options{Place: place, Only: name, Log: log})
		}, tool, words)
		return result, explainHang(err)
	}
	o := proxyOptions(connectedWorkplace(), c, state.Dir{}, log)
	o.Upstreams = slices.DeleteFunc(o.Upstreams, func(u catalog.Upstream) bool { return u.Spec.Name != name })
	o.Enrichment.Mode, o.Record.Off = "off", true
	withProxy(o, func(srv *proxy.Server) {
		result, err = callOnce(ctx, func(ctx context.Context, in io.Reader, out io.Writer) error {
			return srv.ServeStdio(ctx, in, out, name)
		}, tool, words)
	})
	return result, err
}

// callOnce makes one call as a client of serve.
func callOnce(ctx context.Context, serve func(context.Context, io.Reader, io.Writer) error, tool string, words []string) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- serve(ctx, in, out)
		in.Close() // else the client would wait until its request is read
		out.Close()
	}()
	client := &onceClient{Stdio: transport.NewIO(fromServer, toServer, io.NopCloser(strings.NewReader("")))}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	defer client.Close()
	result, err := client.call(ctx, tool, words)
	if err != nil {
		select {
		case why := <-served:
			return nil, cmp.Or(why, err)
		default:
		}
	}
	return result, err
}

// onceClient is an MCP client for one call.
type onceClient struct {
	*transport.Stdio
	id int64
}

// call performs the handshake, and calls a tool with the arguments of the command line.
func (o *onceClient) call(ctx context.Context, tool string, words []string) (json.RawMessage, error) {
	hello := map[string]any{"protocolVersion": "2025-11-25", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "mcpschedd call", "version": version()}}
	if _, err := o.request(ctx, "initialize", hello); err != nil {
		return nil, err
	}
	initialized := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{Method: "notifications/initialized"}}
	if err := o.SendNotification(ctx, initialized); err != nil {
		return nil, err
	}
	var list struct {
		Tools []listedTool `json:"tools"`
	}
	listed, err := o.request(ctx, "tools/list", map[string]any{"_meta": map[string]bool{proxy.AwaitTools: true}})
	if err == nil {
		err = json.Unmarshal(listed, &list)
	}
	if err != nil {
		return nil, err
	}
	var t listedTool
	if i := slices.IndexFunc(list.Tools, func(t listedTool) bool { return t.Name == tool }); i >= 0 {
		t = list.Tools[i]
	} else if len(list.Tools) > 0 { // else the server says why there is none
		var names []string
		for _, t := range list.Tools {
			names = append(names, t.Name)
		}
		return nil, suggest(fmt.Errorf("no tool %q", tool), "", tool, names, "there are: "+strings.Join(names, ", "))
	}
	arguments, err := t.arguments(words)
	if err != nil {
		return nil, err
	}
	return o.request(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// request sends one request, and returns its result.
func (o *onceClient) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	o.id++
	answer, err := o.SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(o.id), Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, errors.New(answer.Error.Message)
	}
	return answer.Result, nil
}

// listedTool is a tool in a result of tools/list.
type listedTool struct {
	Name        string `json:"name"`
	InputSchema struct {
		Properties map[string]argumentSchema `json:"properties"`
	} `json:"inputSchema"`
}

// argumentSchema is the schema of an argument.
type argumentSchema struct {
	Type  any              `json:"type"` // a name, or a list of them
	AnyOf []argumentSchema `json:"anyOf"`
}

// takesString reports whether a string may be valid.
func (s argumentSchema) takesString() bool {
	types, _ := s.Type.([]any)
	return s.Type == "string" || slices.Contains(types, any("string")) || slices.ContainsFunc(s.AnyOf, argumentSchema.takesString)
}

// arguments parses the arguments of the command line: one JSON object, or pairs.
func (t *listedTool) arguments(words []string) (any, error) {
	if len(words) == 1 && strings.HasPrefix(strings.TrimSpace(words[0]), "{") {
		if fault := jsonrpc.Fault([]byte(words[0])); fault != "" {
			return nil, usage("the arguments are %s: %.100s", fault, words[0])
		}
		return json.RawMessage(words[0]), nil
	}
	arguments := map[string]any{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, usage("want KEY=VALUE, or all arguments as one JSON object, have %q", word)
		}
		if _, twice := arguments[key]; twice {
			return nil, usage("want each KEY once, have %q again", key)
		}
		arguments[key] = value
		if s, known := t.InputSchema.Properties[key]; known && !s.takesString() && json.Valid([]byte(value)) {
			arguments[key] = json.RawMessage(value)
		}
	}
	return arguments, nil
}

// callResult is the result of a tool call.
type callResult struct {
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Content           []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Resource struct {
			Text string `json:"text"`
		} `json:"resource"`
	} `json:"content"`
}

// text formats a result for people.
func (r *callResult) text() string {
	var b strings.Builder
	if len(r.Content) == 0 && r.StructuredContent != nil {
		fmt.Fprintf(&b, "%s\n", r.StructuredContent)
	}
	for _, c := range r.Content {
		if text := cmp.Or(c.Text, c.Resource.Text); text != "" || c.Type == "text" {
			fmt.Fprintln(&b, text)
		} else {
			fmt.Fprintf(&b, "(%s; --json prints it)\n", c.Type)
		}
	}
	return b.String()
}

// printResult prints the result of a tool call. It returns an error if the result has isError
// set.
func printResult(w io.Writer, result json.RawMessage, asJSON bool) error {
	var r callResult
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	if r.IsError && !asJSON {
		return fmt.Errorf("the tool failed: %s", strings.TrimSpace(r.text()))
	}
	text := r.text()
	if isTerminal(w) {
		text = record.Printable(text, '\n', '\t')
	}
	if asJSON {
		text = string(result) + "\n"
	}
	io.WriteString(w, text)
	if r.IsError {
		return errors.New("the tool failed")
	}
	return nil
}
