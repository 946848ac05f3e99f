//go:build unix

package upstream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/guard"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/secret"
)

// proxyVariable makes the test binary a proxy instead of running tests. It is the path of the
// program of its server.
const proxyVariable = "MCPSCHEDD_TEST_PROXY"

// processPatience limits the waits of these tests, which are normally much shorter.
const processPatience = 30 * time.Second

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		guard.Run(os.Stdin)
		syscall.Exit(0) // os.Exit would wait a second under the race detector, as a guard gets no GORACE
	}
	if program := os.Getenv(proxyVariable); program != "" {
		serveFamily(program)
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "apart" { // a server with a child outside its group: program, environment of the child
		child := exec.Command(os.Args[2])
		child.Env, child.Stdout, child.Stderr = os.Args[3:], os.Stdout, os.Stderr
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
		panic(syscall.Exec(os.Args[2], os.Args[2:3], os.Environ()))
	}
	os.Exit(m.Run())
}

// faulty is the command of a server that has no lists, unless its options say otherwise.
func faulty(t *testing.T, o mcptest.Options) Command {
	t.Helper()
	o.Capabilities = cmp.Or(o.Capabilities, "{}")
	return Command{Path: mcptest.ServerProgram(t), grace: 10 * time.Second, Env: []string{o.Env()}}
}

// garbage are the params of a call before whose answer the server prints the lines.
func garbage(lines ...string) string {
	var raw [][]byte
	for _, line := range lines {
		raw = append(raw, []byte(line))
	}
	return `{"name":"garbage","arguments":{"lines":` + string(jsonrpc.Marshal(raw)) + `}}`
}

// run attaches a session to a server. At the end of the test no process or goroutine may be left.
func run(t *testing.T, command Command, o Options) visitor {
	t.Helper()
	v := visitor{heard: new(diary)}
	o.Log, o.Invalidated = slog.New(garbageLog{v.heard}), v.heard.write
	u := New(Spec{Name: "web", Command: command, MaxMessage: 1 << 20, StartTimeout: processPatience}, Quiet(o))
	v.Lease = u.Attach(revision.Client{}, Listener{Notify: func(method string, _ []byte) { v.heard.write("heard " + method) }})
	t.Cleanup(func() {
		u.Close()
		wantNoGoroutine(t)
	})
	v.AwaitOffer(t.Context())
	return v
}

func wantNoGoroutine(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	mcptest.Eventually(t, "no goroutine is left", func() bool {
		all := stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(all, []byte("upstream.(*process)")) && !bytes.Contains(all, []byte("jsonrpc.(*Writer)"))
	})
}

// process returns the process of a session's server.
func (v visitor) process(t *testing.T) *process {
	t.Helper()
	mcptest.Eventually(t, "the server is there", v.Live)
	return v.in.live().link.(*process)
}

func TestProcessAnswers(t *testing.T) {
	v := run(t, faulty(t, mcptest.Options{}), Options{})
	large := `{"name":"work","arguments":{"text":"` + strings.Repeat("é", 200_000) + `"}}`
	if got, want := v.tool(t.Context(), large), `"structuredContent":`+large+"}"; !strings.HasSuffix(got, want) {
		t.Errorf("got %d bytes, want %d at the end", len(got), len(want))
	}
	v.Close()
	if got := v.work(t.Context()); got != errRemoved.Error() {
		t.Errorf("after the end: got %s", got)
	}
}

func TestProcessEnds(t *testing.T) {
	const ended = "connection ended before the answer: "
	const mute = `{"name":"closeout"}`
	for call, want := range map[string]string{
		`{"name":"die","arguments":{"stderr":["about to fail","really"]}}`: ended + "exit status 3\nits last lines on stderr:\n  about to fail\n  really",
		`{"name":"die","arguments":{"kill":true}}`:                         ended + "signal: killed",
		mute: ended + "closed its output",
		garbage(`{"jsonrpc":"2.0","id":$ID,"result":{"text":"` + "\x01" + `"}}`): "its answer cannot be read: parse error: not JSON at byte 42 (-32700)",
		garbage(`{"jsonrpc":"2.0","id":$ID}`):                                    `its answer cannot be read: invalid request: no "method", "result" or "error" (-32600)`,
	} {
		t.Run(call, func(t *testing.T) {
			command := faulty(t, mcptest.Options{Stays: call == mute})
			if call == mute { // it does not exit; the others get the full grace period, for slow machines
				command.grace = 50 * time.Millisecond
			}
			v := run(t, command, Options{})
			if got := v.tool(t.Context(), call); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A call that a reload ends is told why, without the server's last lines.
func TestReloadEndsACall(t *testing.T) {
	v := run(t, faulty(t, mcptest.Options{}), Options{})
	ended := make(chan string, 1)
	v.Send(t.Context(), v.Turn(), &Request{
		Method: "tools/call", Params: []byte(`{"name":"hang"}`),
	}, func(_ Answer, err error) { ended <- fmt.Sprint(err) })
	v.in.up.Close()
	want := `server "web" is not available: ` + errStopped.Error()
	if got := <-ended; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A program that prints how it is used and exits has said why it cannot start.
func TestProcessThatPrintsItsUsage(t *testing.T) {
	echo, err := exec.LookPath("echo")
	if err != nil {
		t.Fatal(err)
	}
	v := run(t, Command{Path: echo, Args: []string{"usage: server FILE"}}, Options{})
	if got, want := v.work(t.Context()), "exit status 0, after it wrote to stdout: usage: server FILE"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
}

func TestProcessRubbish(t *testing.T) {
	v := run(t, faulty(t, mcptest.Options{}), Options{})
	v.heard.turn()
	var wrong []string // responses to other requests
	for _, id := range []string{"0", "-7", "999999999", "$ID.5", `"$IDx"`, "null", "1e3"} {
		wrong = append(wrong, `{"jsonrpc":"2.0","id":`+id+`,"result":{"wrong":true}}`)
	}
	got := v.tool(t.Context(), garbage(
		strings.Join(append(wrong, "Server listening"), "\n"),
		`{"jsonrpc":"2.0","id":$ID,"method":"ask","params":{"text":"`+"\t"+`"}}`, // an unreadable request is not an answer
		`{"jsonrpc":"2.0","id":$ID,"method":"ask","params":`,
		`[{"jsonrpc":"2.0"`,
		"\n\r\n"+` {"jsonrpc":"2.0","method":"note"} `+"\r\n17",
	))
	if !strings.Contains(got, `"name":"garbage"`) {
		t.Errorf("got %s", got)
	}
	if got := v.heard.turn(); len(got) != 13 || got[11] != "heard note" {
		t.Errorf("got %q, want twelve pieces of garbage, and a note before the last", got)
	}
}

func TestProcessBatch(t *testing.T) {
	v := run(t, faulty(t, mcptest.Options{}), Options{})
	v.heard.turn()
	if got := v.tool(t.Context(), garbage(`[{"jsonrpc":"2.0","method":"note"}, 17, {"jsonrpc":"2.0","id":$ID,"result":{"batch":true}}]`)); got != `{"batch":true}` {
		t.Errorf("got %s", got)
	}
	if got := v.heard.turn(); len(got) < 2 || got[0] != "heard note" {
		t.Errorf("got %q, want a note, and a piece of garbage", got)
	}
}

func TestProcessLongLine(t *testing.T) {
	v := run(t, faulty(t, mcptest.Options{}), Options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got, want := v.tool(t.Context(), `{"name":"big","arguments":{"n":41943040}}`), "its answer cannot be read: message too long: more than the 1048576 bytes of max_message_bytes in [server]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	runtime.ReadMemStats(&after)
	if got, want := after.TotalAlloc-before.TotalAlloc, uint64(16<<20); got > want {
		t.Errorf("got %d bytes allocated for a line of 40 MiB with a limit of 1 MiB, want at most %d", got, want)
	}
}

func TestProcessFloodsStderr(t *testing.T) {
	v := run(t, faulty(t, mcptest.Options{}), Options{})
	line := `"` + strings.Repeat("noise ", 400) + `"`
	_, text, _ := strings.Cut(v.tool(t.Context(), `{"name":"die","arguments":{"stderr":[`+line+strings.Repeat(","+line, 1000)+`]}}`), "stderr:\n  ")
	lines := strings.Split(text, "\n  ")
	if len(lines) != tailLines || len(lines[0]) > tailWidth || len(lines[0]) < tailWidth-len("noise ") {
		t.Errorf("got %d lines, the first of %d bytes, want %d, cut at %d", len(lines), len(lines[0]), tailLines, tailWidth)
	}
}

// A process has only a short time to end once StopFast is closed.
func TestProcessThatDoesNotEnd(t *testing.T) {
	command := faulty(t, mcptest.Options{Stubborn: true, Stays: true})
	command.grace = time.Hour
	fast := make(chan struct{})
	close(fast)
	v := run(t, command, Options{StopFast: fast})
	p := v.process(t)
	v.Close()
	if p.state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want an end by SIGKILL", p.state)
	}
}

func TestSendDoesNotWaitForADeafProcess(t *testing.T) {
	command := faulty(t, mcptest.Options{})
	command.grace = 10 * time.Millisecond // it ignores the end of its input
	v := run(t, command, Options{})
	v.process(t)
	params := []byte(`{"name":"deaf","arguments":{"text":"` + strings.Repeat("x", 8<<20) + `"}}`)
	outcomes := make(chan error, 100)
	sent := 0
	for ; len(outcomes) == 0 && sent < cap(outcomes); sent++ {
		v.Send(t.Context(), v.Turn(), &Request{Method: "tools/call", Params: params}, func(_ Answer, err error) { outcomes <- err })
	}
	if err := <-outcomes; err == nil || !strings.Contains(err.Error(), "does not read its input") {
		t.Errorf("got error %v after %d messages, want that it does not read", err, sent)
	}
	if sent < 5 {
		t.Errorf("got the error after %d messages already", sent)
	}
}

// The lists of a process that exits when they are read are not stored.
func TestListsOfAnEndingProcess(t *testing.T) {
	var heard diary
	v := run(t, faulty(t, mcptest.Options{Start: "listless", Capabilities: `{"tools":{}}`}), Options{Store: storing(t, &heard)})
	heard.want(t)
	if v.in.state.Load().listed {
		t.Errorf("the tools are given as %v", v.Offer().Items(Tools))
	}
}

// Descendants of a process are killed with it if they have not left its group. Those that have
// left it delay neither the calls nor a fast stop.
func TestProcessEndsDespiteGrandchild(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprint("apart ", apart), func(t *testing.T) {
			var o Options
			if apart {
				fast := make(chan struct{})
				close(fast)
				o.StopFast = fast
			}
			gate := mcptest.NewGate(t)
			command := faulty(t, mcptest.Options{Family: !apart, Beacon: gate.Addr()})
			if apart {
				command.Args = []string{"apart", command.Path, mcptest.Options{Beacon: gate.Addr(), Stays: true}.Env()}
				command.Path = os.Args[0]
			}
			v := run(t, command, o)
			p := v.process(t)
			pid := gate.Next().PID
			if other := gate.Next().PID; pid == p.leader.Pid {
				pid = other
			}
			if got, want := v.tool(t.Context(), `{"name":"die"}`), "connection ended before the answer: exit status 3"; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			<-p.c.life.Done()
			if !apart {
				wantGone(t, pid)
				return
			}
			if !alive(pid) {
				t.Error("a process outside the group was ended")
			}
			syscall.Kill(pid, syscall.SIGKILL)
		})
	}
}

// alive reports whether a process is running; a zombie is not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) && runtime.GOOS == "linux" {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		mcptest.Eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
}

// A process that exits may have run the requests that it had received, and no others.
func TestSentToAProcess(t *testing.T) {
	v := run(t, Command{Path: mcptest.ServerProgram(t), Env: []string{mcptest.Options{}.Env()}}, Options{})
	v.heard.turn()
	change := &Request{Method: "tools/call", Params: []byte(`{"name":"change","arguments":{}}`)}
	if answer, err := v.Call(t.Context(), v.Turn(), change); err != nil || !answer.Sent {
		t.Errorf("got sent %v beside %v", answer.Sent, err)
	}
	v.heard.want(t, "list_changed") // it was sent before the answer
	late := *change
	late.Fence = func() error { return errors.New("too late") }
	if answer, err := v.Call(t.Context(), v.Turn(), &late); err == nil || answer.Sent {
		t.Errorf("kept back: got sent %v beside %v", answer.Sent, err)
	}
	if got := v.heard.turn(); len(got) != 0 {
		t.Errorf("kept back: got %q", got)
	}
	die := &Request{Method: "tools/call", Params: []byte(`{"name":"die","arguments":{}}`)}
	if answer, err := v.Call(t.Context(), v.Turn(), die); !errors.Is(err, errEnded) || !answer.Sent {
		t.Errorf("got sent %v beside %v", answer.Sent, err)
	}
	if got := v.heard.turn(); len(got) == 0 || got[0] != "exit" {
		t.Errorf("got %q, want the exit", got)
	}
}

func TestNoProcessIsSentNothing(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "missing", Command: Command{Path: "/no/such/program"}},
		{Name: "unset", Unusable: errors.New("TOKEN: not set")},
		{Name: "refuses", Command: Command{Path: mcptest.ServerProgram(t), Env: []string{mcptest.Options{Start: "refuse"}.Env()}}},
	} {
		spec.StartTimeout = processPatience
		u := New(spec, Quiet(Options{}))
		l := u.Attach(revision.Client{}, Listener{})
		if answer, err := callEcho(t.Context(), l); err == nil || answer.Sent {
			t.Errorf("%s: got sent %v beside %v", spec.Name, answer.Sent, err)
		}
		u.Close()
	}
}

// A call that waits for its server is sent behind the settings.
func TestSettingsPrecedeTheFirstCall(t *testing.T) {
	gate, sent := mcptest.NewGate(t), make(chan struct{})
	var lease atomic.Pointer[Lease]
	u := New(Spec{Name: "web", Command: faulty(t, mcptest.Options{Gate: gate.Addr(), Capabilities: `{"logging":{}}`}), MaxMessage: 1 << 20, StartTimeout: processPatience}, Quiet(Options{
		Changed: func() {
			if l := lease.Load(); l != nil && l.Live() {
				<-sent // so that nothing else is sent first
			}
		},
	}))
	defer u.Close()
	l := u.Attach(revision.Client{}, Listener{})
	lease.Store(l)
	l.SetLevel("debug")
	answered := make(chan string, 1)
	l.Send(t.Context(), l.Turn(), &Request{Method: "tools/call", Params: []byte(`{"name":"seen"}`), Sent: func() { close(sent) }}, func(a Answer, err error) {
		answered <- fmt.Sprint(string(a.Result), err)
	})
	gate.Next().Open()
	got := <-answered
	if level := strings.Index(got, "logging/setLevel"); level < 0 || level > strings.Index(got, "tools/call") {
		t.Errorf("got %s, want the level before the call", got)
	}
}

// A line that is no message and is not logged, as of a server that logs to stdout, costs no memory.
func TestInvalidLinesAreCheap(t *testing.T) {
	c := &conn{in: &instance{up: &Upstream{log: slog.New(slog.DiscardHandler), mask: secret.NewMasker()}}}
	c.invalid.Store(invalidLogged)
	if n := testing.AllocsPerRun(100, func() { c.logInvalid([]byte("GET / 200"), errClosed) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}
