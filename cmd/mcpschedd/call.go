package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
)

// callOptions are its flags.
type callOptions struct {
	config string
	json   bool
}

func callCommand() *cobra.Command {
	var o callOptions
	c := &cobra.Command{
		Use:   "call NAME/TOOL [KEY=VALUE... | JSON]",
		Short: "Call one tool of one server, and print its answer",
		Long: `Starts one upstream, calls one of its tools, and prints the answer. The call runs
whatever the tool does. Nothing is recorded, learned or taken from what is stored.

NAME is an upstream of the configuration, TOOL one of its tools as its server names it.
Each KEY=VALUE is an argument; where the tool takes no string, VALUE is JSON. Or all
the arguments stand there as one JSON object.`,
		Example: `  mcpschedd call files/read_text_file path=README.md
  mcpschedd call github/list_issues owner=golang repo=go perPage=3`,
		Args:              takes(1, -1, "NAME/TOOL"),
		ValidArgsFunction: completeTools(&o.config),
		RunE:              func(c *cobra.Command, words []string) error { return call(c.Context(), words, o, c.OutOrStdout()) },
	}
	configFlag(c, &o.config)
	c.Flags().BoolVar(&o.json, "json", false, "print the result as it came")
	return c
}

// call calls one tool of one upstream.
func call(ctx context.Context, words []string, f callOptions, stdout io.Writer) error {
	name, tool, ok := strings.Cut(words[0], "/")
	if !ok || name == "" || tool == "" {
		return usage("want NAME/TOOL, have %q", words[0])
	}
	c, err := load(f.config)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Name == name })
	switch {
	case i < 0:
		return unknownUpstream(c, c.Path, name)
	case !c.Upstreams[i].Enabled:
		return hinted{misused{fmt.Errorf("upstream %q is disabled", name)}, "mcpschedd enable " + name}
	}
	result, err := callOnce(ctx, c, name, tool, words[1:])
	if err != nil {
		return err
	}
	return printResult(stdout, result, f.json)
}

// callOnce makes one call through a proxy that lives for it alone.
func callOnce(ctx context.Context, c *config.Config, name, tool string, words []string) (json.RawMessage, error) {
	quiet := slog.New(slog.DiscardHandler)
	o := options(c, state.Dir{}, quiet)
	o.Upstreams = slices.DeleteFunc(o.Upstreams, func(u proxy.Upstream) bool { return u.Spec.Name != name })
	for i := range o.Upstreams {
		o.Upstreams[i].Store, o.Upstreams[i].Learned = upstream.Store{}, nil
	}
	o.Enrichment.Mode, o.Record.Off, o.StartupWait = "off", true, o.Upstreams[0].Spec.StartTimeout
	guard := upstream.NewGuard(quiet)
	defer guard.Close()
	srv := proxy.New(o, guard)
	defer srv.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() { out.CloseWithError(srv.ServeStdio(ctx, in, out, name)) }()
	defer toServer.Close()
	client := &lineClient{to: toServer, from: bufio.NewReader(fromServer)}
	return client.call(tool, words)
}

// lineClient is an MCP client that makes one request after the other.
type lineClient struct {
	to   io.Writer
	from *bufio.Reader
	id   int
}

// call introduces the client, and calls a tool with arguments of the command line.
func (l *lineClient) call(tool string, words []string) (json.RawMessage, error) {
	hello := map[string]any{"protocolVersion": "2025-11-25", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "mcpschedd call", "version": version()}}
	if _, err := l.request("initialize", hello); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(l.to, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return nil, err
	}
	listed, err := l.request("tools/list", struct{}{})
	if err != nil {
		return nil, err
	}
	var list struct {
		Tools []listedTool `json:"tools"`
	}
	if err := json.Unmarshal(listed, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	i := slices.Index(names, tool)
	if i < 0 && len(names) > 0 { // else the call says why there are none
		err := misused{fmt.Errorf("no tool %q", tool)}
		if near := nearest.New(names).To(tool); near != "" {
			return nil, hinted{err, "did you mean " + near + "?"}
		}
		return nil, hinted{err, "there are: " + strings.Join(names, ", ")}
	}
	var t listedTool
	if i >= 0 {
		t = list.Tools[i]
	}
	arguments, err := t.arguments(words)
	if err != nil {
		return nil, usage("%v", err)
	}
	return l.request("tools/call", map[string]any{"name": tool, "arguments": arguments})
}

// request makes one request, and returns its result. What else the server says is left
// unread.
func (l *lineClient) request(method string, params any) (json.RawMessage, error) {
	l.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": l.id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := l.to.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := l.from.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var answer struct {
			ID     *int            `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return nil, err
		}
		switch {
		case answer.ID == nil || answer.Method != "" || *answer.ID != l.id:
		case answer.Error != nil:
			return nil, errors.New(answer.Error.Message)
		default:
			return answer.Result, nil
		}
	}
}

// listedTool is a tool as its server lists it.
type listedTool struct {
	Name        string `json:"name"`
	InputSchema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	} `json:"inputSchema"`
}

// arguments are those of the command line: an object, or pairs.
func (t *listedTool) arguments(words []string) (any, error) {
	if len(words) == 1 && strings.HasPrefix(strings.TrimSpace(words[0]), "{") {
		if !json.Valid([]byte(words[0])) {
			return nil, fmt.Errorf("the arguments are no JSON: %s", words[0])
		}
		return json.RawMessage(words[0]), nil
	}
	arguments := map[string]any{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("want KEY=VALUE, or all arguments as one JSON object, have %q", word)
		}
		arguments[key] = value
		kind, known := t.InputSchema.Properties[key]
		if takesString := !known || kind.Type == "string"; !takesString && json.Valid([]byte(value)) {
			arguments[key] = json.RawMessage(value)
		}
	}
	return arguments, nil
}

// printResult prints what a tool answered. An answer that says the tool failed is an
// error.
func printResult(w io.Writer, result json.RawMessage, asJSON bool) error {
	var r struct {
		IsError           bool            `json:"isError"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		Content           []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Data     string `json:"data"`
			MIMEType string `json:"mimeType"`
			URI      string `json:"uri"`
			Resource struct {
				URI  string `json:"uri"`
				Text string `json:"text"`
			} `json:"resource"`
		} `json:"content"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return err
	}
	var b bytes.Buffer
	switch {
	case asJSON:
		b.Write(append(result, '\n'))
	case len(r.Content) == 0 && r.StructuredContent != nil:
		b.Write(append(r.StructuredContent, '\n'))
	}
	for _, c := range r.Content {
		switch {
		case asJSON:
		case c.Type == "text":
			fmt.Fprintln(&b, c.Text)
		case c.Type == "resource" && c.Resource.Text != "":
			fmt.Fprintln(&b, c.Resource.Text)
		case c.Data != "":
			fmt.Fprintf(&b, "(%s %s, %d characters of base64; --json prints them)\n", c.Type, c.MIMEType, len(c.Data))
		default:
			fmt.Fprintf(&b, "(%s %s%s)\n", c.Type, c.URI, c.Resource.URI)
		}
	}
	if r.IsError && !asJSON {
		return fmt.Errorf("the tool failed: %s", strings.TrimSpace(b.String()))
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return err
	}
	if r.IsError {
		return errors.New("the tool failed")
	}
	return nil
}
