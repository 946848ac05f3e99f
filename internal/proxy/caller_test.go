package proxy_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

// able holds the capabilities of the test client.
const able = `{"elicitation":{"form":{}},"sampling":{},"roots":{"listChanged":true}}`

// caller is a client on stdio that writes its requests as raw text. It fails its test if it waits
// too long.
type caller struct {
	*wire
	era string     // handshake or stateless
	end chan error // result of ServeStdio
}

// connect serves a client on pipes. For the handshake era it completes the handshake and lists the
// tools, which waits for the servers.
func connect(t *testing.T, s *proxy.Server, era string) *caller {
	t.Helper()
	c := attach(t, s, era)
	c.introduce()
	return c
}

// introduce sends the first messages of a client.
func (c *caller) introduce() {
	if c.era == handshake {
		c.opens("tester", able)
		c.request("tools/list", "")
	}
}

// opens sends the first messages of a client with these capabilities, and returns the first result. The
// name is that of a client with a handshake; a stateless one is the tester in each message.
func (c *caller) opens(name, capabilities string) string {
	c.t.Helper()
	if c.era == handshake {
		result := c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"`+name+`","version":"1"}}`)
		c.note("notifications/initialized", "{}")
		return result
	}
	return string(c.startAs("server/discover", withMeta("{}", capabilities, "")).wait().Result)
}

// attach serves a client that has not sent anything yet.
func attach(t *testing.T, s *proxy.Server, era string) *caller {
	t.Helper()
	return attachBy(t, era, func(in io.Reader, out io.Writer) error { return s.ServeStdio(context.Background(), in, out, "") })
}

// attachBy is attach with a function that serves the client.
func attachBy(t *testing.T, era string, serve func(in io.Reader, out io.Writer) error) *caller {
	t.Helper()
	in, toProxy, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromProxy, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &caller{wire: newWire(t, nil, toProxy, fromProxy), era: era, end: make(chan error, 1)}
	go func() {
		c.end <- serve(in, out)
		in.Close()
		out.Close()
	}()
	t.Cleanup(func() {
		toProxy.Close()
		select {
		case <-c.gone:
		case <-time.After(3 * patience): // open requests may take one patience
			t.Error("the session did not end when its client closed its input")
		}
		fromProxy.Close()
	})
	return c
}

// pending is a request that was sent.
type pending struct{ sent }

// start sends a request; params is an object. A stateless client adds its _meta.
func (c *caller) start(method, params string) pending {
	c.t.Helper()
	return c.startAs(method, c.complete(cmp.Or(params, "{}")))
}

// complete returns params with the client's _meta, if it is stateless.
func (c *caller) complete(params string) string {
	if c.era == stateless {
		return withMeta(params, able, "")
	}
	return params
}

// startAs sends a request whose params contain the client's _meta.
func (c *caller) startAs(method, params string) pending { return pending{c.wire.start(method, params)} }

// withMeta adds the _meta of every stateless request.
func withMeta(params, capabilities, level string) string {
	meta := jsonrpc.Get([]byte(params), "_meta")
	meta = jsonrpc.Set(meta, "io.modelcontextprotocol/protocolVersion", []byte(`"`+stateless+`"`))
	meta = jsonrpc.Set(meta, "io.modelcontextprotocol/clientCapabilities", []byte(capabilities))
	meta = jsonrpc.Set(meta, "io.modelcontextprotocol/clientInfo", []byte(`{"name":"tester","version":"1"}`))
	if level != "" {
		meta = jsonrpc.Set(meta, "io.modelcontextprotocol/logLevel", []byte(`"`+level+`"`))
	}
	return string(jsonrpc.Set([]byte(params), "_meta", meta))
}

// wait returns the answer to a request.
func (p pending) wait() jsonrpc.Message {
	p.w.t.Helper()
	answer := make(chan answered, 1)
	go func() { answer <- p.sent.wait() }()
	a := await(p.w.t, answer)
	if a.none {
		p.w.t.Fatalf("request %s: the session ended without an answer", p.id)
	}
	return a.Message
}

// open reports whether the request has no answer yet.
func (p pending) open() bool { return len(p.answer) == 0 }

// request returns the result of a request, which must not fail.
func (c *caller) request(method, params string) string {
	c.t.Helper()
	m := c.start(method, params).wait()
	if m.Error != nil {
		c.t.Fatalf("%s: got error %s", method, m.Error)
	}
	return string(m.Result)
}

// refused returns the error code of a request, which must fail.
func (c *caller) refused(method, params string) (code int, message string) {
	c.t.Helper()
	m := c.start(method, params).wait()
	if m.Error == nil {
		c.t.Fatalf("%s: got %s, want an error", method, m.Result)
	}
	return errorOf(c.t, m)
}

func errorOf(t *testing.T, m jsonrpc.Message) (code int, message string) {
	t.Helper()
	var e struct {
		Code    int
		Message string
	}
	if err := json.Unmarshal(m.Error, &e); err != nil {
		t.Fatalf("%s: %v", m.Raw, err)
	}
	return e.Code, e.Message
}

func toolCall(tool, arguments string) string {
	if arguments == "" {
		arguments = "{}"
	}
	return `{"name":"` + tool + `","arguments":` + arguments + `}`
}

// begin sends a call.
func (c *caller) begin(tool, arguments string) pending {
	c.t.Helper()
	return c.start("tools/call", toolCall(tool, arguments))
}

// call makes a call and returns its result.
func (c *caller) call(tool, arguments string) string {
	c.t.Helper()
	return c.request("tools/call", toolCall(tool, arguments))
}

// said makes a call and returns the structuredContent of its result.
func (c *caller) said(tool, arguments string) string {
	c.t.Helper()
	return structured([]byte(c.call(tool, arguments)))
}

// structured returns the structured content of a result. What a stateless server sends to a client of the
// handshake era is wrapped if it is no object.
func structured(result []byte) string {
	content := jsonrpc.Get(result, "structuredContent")
	if wrapped := jsonrpc.Get(content, "result"); wrapped != nil {
		return string(wrapped)
	}
	return string(content)
}

// broken makes a call and returns its text. The result must have isError.
func (c *caller) broken(tool, arguments string) string {
	c.t.Helper()
	return brokenText(c.t, c.begin(tool, arguments).wait())
}

func brokenText(t *testing.T, m jsonrpc.Message) string {
	t.Helper()
	var r struct {
		IsError bool
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(m.Result, &r); err != nil || !r.IsError || len(r.Content) != 1 {
		t.Fatalf("got %s (%v), want a result with isError", m.Raw, err)
	}
	return r.Content[0].Text
}

// names lists with method, and returns the names in the list.
func (c *caller) names(method, member string) string {
	c.t.Helper()
	var names []string
	for item := range jsonrpc.Elements(jsonrpc.Get([]byte(c.request(method, "")), member)) {
		name, ok := jsonrpc.String(jsonrpc.Get(item, "name"))
		if !ok {
			c.t.Errorf("%s: no name: %s", method, item)
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (c *caller) tools() string {
	c.t.Helper()
	return c.names("tools/list", "tools")
}

// next waits for a notification or a question with that method, and skips all others.
func (c *caller) next(method string) jsonrpc.Message {
	c.t.Helper()
	late := time.After(patience)
	for {
		select {
		case m := <-c.notes:
			if m.Method == method {
				return m
			}
		case <-late:
			c.t.Fatalf("no %s came", method)
		}
	}
}

// transcript returns all messages received so far.
func (c *caller) transcript() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

// reply sets the client's replies to questions.
func (c *caller) reply(answer func(method string, params []byte) []byte) {
	c.mu.Lock()
	c.answer = answer
	c.mu.Unlock()
}

// hangUp closes the client's end and waits for the proxy to close its own.
func (c *caller) hangUp() error {
	c.t.Helper()
	c.in.Close()
	return await(c.t, c.end)
}

// start returns a proxy that is closed when the test ends.
func start(t *testing.T, o proxy.Options) *proxy.Server {
	t.Helper()
	s := proxy.New(o, nil)
	t.Cleanup(s.Close)
	return s
}

// child returns an upstream that runs in a process of its own.
func child(t testing.TB, o mcptest.Options) catalog.Upstream {
	t.Helper()
	return catalog.Upstream{
		Fingerprint: o.Env(),
		Spec: upstream.Spec{
			Name: o.Name, StartTimeout: patience, MaxMessage: 8 << 20,
			Command: upstream.Command{Path: mcptest.ServerProgram(t), Env: []string{o.Env()}},
		},
	}
}

// remote returns an upstream over HTTP and its server.
func remote(t testing.TB, o mcptest.Options) (*mcptest.Server, catalog.Upstream) {
	t.Helper()
	s := mcptest.New(o)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return s, catalog.Upstream{
		Fingerprint: web.URL,
		Spec:        upstream.Spec{Name: o.Name, URL: web.URL, StartTimeout: patience, MaxMessage: 8 << 20},
	}
}

// options returns options of a proxy with these upstreams, which waits for all of them.
func options(ups ...catalog.Upstream) proxy.Options {
	return proxy.Options{Upstreams: ups, Fixed: proxy.Fixed{StartupWait: patience, DrainTimeout: patience}}
}
