package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/mcptest"
)

// TestMain makes the test binary every process that a run starts: an odd MCP server, and a
// stand-in for the proxy that relays and makes the changes that it is told to make.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "odd":
			odd(os.Args[2:])
			os.Exit(0)
		case "serve":
			relay(os.Args[2:])
			os.Exit(0)
		}
	}
	// With the race detector every process would otherwise wait for a second at its end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// odd is a server with answers that are easily changed on the way. With "shuffle" the order of its
// tools varies; with "vary" one of its answers depends on the process.
func odd(args []string) {
	shuffle, vary := slices.Contains(args, "shuffle"), slices.Contains(args, "vary")
	tools := []string{
		`{"name":"first","zeta":1,"alpha":{"n":9007199254740993,"e":1e2},"inputSchema":{"type":"object","oneOf":[{}],"$schema":"x"},"_meta":{"a/b":null}}`,
		`{"inputSchema":{"type":"object"},"name":"second","description":"<&>\u2028é"}`,
		`{"name":"third","inputSchema":{"type":"object"}}`,
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil || m.ID == nil {
			continue
		}
		result := ""
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true},"experimental":{"x":{"y":[1]}}},"instructions":"be odd","serverInfo":{"name":"odd","version":"1"}}`
		case "ping":
			result = `{}`
		case "tools/list":
			if !strings.Contains(string(m.Params), "cursor") {
				result = `{"tools":[` + tools[0] + `],"nextCursor":"2"}`
				break
			}
			result = `{"tools":[` + tools[1] + `,` + tools[2] + `]}`
			if shuffle {
				tools[1], tools[2] = tools[2], tools[1]
			}
		case "prompts/list":
			result = `{"prompts":[{"name":"ask","title":"ask","arguments":[{"name":"ask","required":true}]}]}`
		case "resources/list":
			result = `{"resources":[{"uri":"odd://one","name":"one","size":12345678901234567890}]}`
		case "tools/call":
			var p struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
			json.Unmarshal(m.Params, &p) // every call of these tests has a token
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":0.10,"extra":[]}}`+"\n", p.Meta.ProgressToken)
			result = `{"content":[{"type":"hologram","data":{"b":1,"a":18446744073709551615}}],"structuredContent":[1.50,null],"later":{}}`
			if vary {
				result = fmt.Sprintf(`{"content":[],"pid":%d}`, os.Getpid())
			}
		}
		if result == "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no","data":{"n":1.0}}}`+"\n", m.ID)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

// changes is the variable with the texts that relay replaces: old, new, old, new..., one per line.
const changes = "COMPARE_CHANGES"

// relay takes the proxy's command line and relays to its only upstream, replacing texts in all
// messages of the upstream.
func relay(args []string) {
	var config struct {
		Upstreams map[string]struct {
			Command string
			Args    []string
		}
	}
	if _, err := toml.DecodeFile(args[slices.Index(args, "--config")+1], &config); err != nil {
		panic(err)
	}
	for _, up := range config.Upstreams {
		cmd := exec.Command(up.Command, up.Args...)
		cmd.Stdin = os.Stdin
		out, err := cmd.StdoutPipe()
		if err != nil {
			panic(err)
		}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		change := strings.NewReplacer(strings.Split(os.Getenv(changes), "\n")...)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Println(change.Replace(lines.Text()))
		}
		cmd.Wait()
	}
}

// runWith compares odd servers with the given names. It returns whether they are equal, and the
// output.
func runWith(t *testing.T, bin string, serverArgs []string, names ...string) (equal bool, out string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := plan{Roots: []string{"file:///srv"}}
	for _, name := range names {
		p.Servers = append(p.Servers, server{
			Name: name, Command: self, Args: append([]string{"odd"}, serverArgs...), Env: map[string]string{"ODD": "${ODD} \"x\""},
			Calls: []call{
				{"tools/call", json.RawMessage(`{"name":"first","arguments":{"n":9007199254740993},"_meta":{"progressToken":"p"}}`)},
				{"prompts/get", json.RawMessage(`{"name":"ask"}`)},
			},
		})
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "servers.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err = run(t.Context(), []string{"-config", file, "-bin", bin, "-settle", "0s"}, &stdout, io.MultiWriter(&stderr, t.Output()))
	return err == nil, fmt.Sprint(&stdout, &stderr, err)
}

func TestEveryLossIsFound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type loss struct{ name, old, new, want string }
	for _, losses := range [][]loss{ // of one run each: only the first difference of a thing is reported
		{{"nothing", "nothing", "nothing", "odd     3      1        1          0          2"}},
		{
			{"a digit", "740993", "740992", "tools/list/0 /alpha/n: got 9007199254740992, want 9007199254740993"},
			{"a capability", `"resources":{"subscribe":true}`, `"resources":{}`, "capabilities /resources/subscribe: got nothing, want true"},
			{"the instructions", `be odd`, `be even`, `instructions : got "be even", want "be odd"`},
			{"a resource", `odd://one`, `odd://two`, `resources/list/0 /uri: got "odd://two", want "odd://one"`},
			{"in a call's result", `18446744073709551615`, `18446744073709551616`, "tools/call call/0 /result/content/0/data/a: got 18446744073709551616"},
			{"in an error", `{"n":1.0}`, `{"n":1}`, "prompts/get call/1 /error/data/n: got 1, want 1.0"},
		},
		{
			{"order", `"zeta":1,"alpha"`, `"alpha":1,"zeta"`, `tools/list/0 /zeta: got "alpha", want "zeta"`},
			{"in a call's progress", `0.10`, `0.1`, "tools/call call/0 /progress/0/progress: got 0.1, want 0.10"},
		},
		{{"an unknown field", `,"_meta":{"a/b":null}`, ``, `tools/list/0 /_meta: got }, want "_meta"`}},
		{{"a whole tool", `,{"name":"third","inputSchema":{"type":"object"}}`, ``, "tools/list : got 2, want 3"}},
	} {
		var texts []string
		for _, l := range losses {
			texts = append(texts, l.old, l.new)
		}
		t.Setenv(changes, strings.Join(texts, "\n"))
		equal, out := runWith(t, self, nil, "odd")
		for _, l := range losses {
			if equal != (l.old == l.new) || !strings.Contains(out, l.want) {
				t.Errorf("%s: got equal %t and %s\nwant %q", l.name, equal, out, l.want)
			}
		}
	}
}

func TestTheProxyLosesNothing(t *testing.T) {
	bin, err := mcptest.Program("mcpschedd")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		args  []string
		names []string
		want  string
	}{
		{"one server", nil, []string{"odd"}, "equal"},
		{"one that shuffles its tools", []string{"shuffle"}, []string{"odd", "even"}, "order not compared, the server itself varies it: tools/list"},
		{"several, whose names are prefixed", nil, []string{"odd", "even-1"}, "equal"},
		{"one that never says the same", []string{"vary"}, []string{"odd", "even"}, "not compared, the server itself varies: tools/call call/0 /result/pid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if equal, out := runWith(t, bin, tt.args, tt.names...); !equal || !strings.Contains(out, tt.want) {
				t.Errorf("got equal %t and %s\nwant %q", equal, out, tt.want)
			}
		})
	}
}

func TestServersThatCannotBeCompared(t *testing.T) {
	for name, tt := range map[string]struct {
		plan, want string
	}{
		"no such program": {`{"servers":[{"name":"a","command":"/nowhere/a"}]}`, "a, direct: "},
		"no servers":      {`{}`, "servers: want at least one"},
		"no name":         {`{"servers":[{"command":"a"}]}`, "servers[0]: want a name"},
		"no JSON":         {`[`, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "servers.json")
			if err := os.WriteFile(file, []byte(tt.plan), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := run(t.Context(), []string{"-config", file}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v\nwant %q", err, tt.want)
			}
		})
	}
}
