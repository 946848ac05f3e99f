//go:build unix

package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/guard"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// roleVariable makes the test binary play a server instead of running tests.
const roleVariable = "MCPSCHEDD_TEST_ROLE"

// processPatience bounds the waits of these tests; none of them takes nearly as long.
const processPatience = 30 * time.Second

func TestMain(m *testing.M) {
	mcptest.Main()
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		guard.Run(os.Stdin)
		os.Exit(0)
	}
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		role()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// roles are servers with one fault each; none outlives its minute.
var roles = map[string]func(){
	"echo": echo,
	"crash": func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprint(os.Stderr, "about to fail\nno line end")
		os.Exit(3)
	},
	"suicide": func() {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		linger()
	},
	"rubbish": func() {
		fmt.Println("Server listening")
		fmt.Println(`{"jsonrpc":"2.0","id":7,"result":{"text":"` + "\t" + `"}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":8,"method":"ask","params":{"text":"` + "\t" + `"}}`)
		fmt.Println(`{"jsonrpc":"2.0","id":9,"params":`)
		fmt.Println(`[{"jsonrpc":"2.0","id":1,"result":{}}, {"jsonrpc":"2.0","method":"note"}]`)
		fmt.Println(`[{"jsonrpc":"2.0"`)
		fmt.Print("\n\r\n", `{"jsonrpc":"2.0","id":2,"result":{}}`, "\r\n", `{"jsonrpc":"2.0","id":3`)
	},
	"long": func() {
		fmt.Print(`{"jsonrpc":"2.0","id":5,"result":{"text":"`)
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 200 {
			os.Stdout.Write(chunk)
		}
		fmt.Println(`"}}`)
		echo()
	},
	"mute": func() {
		os.Stdout.Close()
		linger()
	},
	"flood": func() {
		line := []byte(strings.Repeat("noise ", 400) + "\n")
		for range 50 << 20 / len(line) {
			os.Stderr.Write(line)
		}
		echo()
	},
	"stubborn": func() {
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		linger()
	},
	"deaf": func() {
		fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
		linger()
	},
	"linger": linger,
	// The parent of a process that holds its pipes open, in its group or not.
	"parent":       func() { leave(&syscall.SysProcAttr{}) },
	"strangeChild": func() { leave(&syscall.SysProcAttr{Setsid: true}) },
	"family":       familyRole,
	"proxy":        proxyRole,
}

func echo() {
	for lines := jsonrpc.NewReader(os.Stdin, 0); ; {
		line, err := lines.Next()
		if err == io.EOF {
			return
		}
		m, parseErr := jsonrpc.Parse(line)
		if err != nil || parseErr != nil {
			os.Exit(9)
		}
		os.Stdout.Write(append(jsonrpc.AppendResult(nil, m.ID, m.Params), '\n'))
	}
}

func linger() { time.Sleep(time.Minute) }

// leave exits while a child lives on that has its stdout and stderr.
func leave(attr *syscall.SysProcAttr) {
	child := exec.Command(os.Args[0])
	child.Env = []string{roleVariable + "=linger"}
	child.Stdout, child.Stderr, child.SysProcAttr = os.Stdout, os.Stderr, attr
	if err := child.Start(); err != nil {
		os.Exit(9)
	}
	fmt.Printf(`{"jsonrpc":"2.0","method":"left","params":{"pid":%d}}`+"\n", child.Process.Pid)
}

// record is a sink that writes down what it is told, in order.
type record chan string

func (r record) sink() sink {
	return sink{
		repaired: func() {},
		message:  func(m jsonrpc.Message, _ int64) { r <- "message " + string(m.Raw) },
		lost:     func(id int64, err error) { r <- fmt.Sprintf("lost %d", id) },
		garbage:  func(head []byte, err error) { r <- fmt.Sprintf("garbage %.23s", head) },
		gap:      func() { r <- "gap" },
		limited:  func(int64, string) {},
		forgot:   func() {},
		closed:   func(err error) { r <- fmt.Sprintf("closed: %v", err) },
	}
}

func (r record) next(t *testing.T) string {
	t.Helper()
	select {
	case event := <-r:
		return event
	case <-time.After(processPatience):
		stacks := make([]byte, 1<<20)
		t.Fatalf("nothing heard within %v\n%s", processPatience, stacks[:runtime.Stack(stacks, true)])
		return ""
	}
}

func (r record) want(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		if got := r.next(t); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func roleCommand(t *testing.T, role string) Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{
		Path: self, MaxMessage: 1 << 20, StopGrace: 10 * time.Second,
		Env: []string{roleVariable + "=" + role, "GORACE=atexit_sleep_ms=0"},
	}
}

// start runs a role. At the end of the test the process must have told its end
// once, last, and nothing of it may be left.
func start(t *testing.T, command Command, guard *Guard) (*process, record) {
	t.Helper()
	heard := make(record, 1000)
	p, err := startProcess(command, guard, nil, heard.sink())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.close()
		for {
			select {
			case event := <-heard:
				if strings.HasPrefix(event, "closed") {
					continue
				}
				t.Errorf("got %q at the end of the test", event)
			default:
				wantNoGoroutine(t)
				return
			}
		}
	})
	return p, heard
}

func wantNoGoroutine(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	eventually(t, "no goroutine is left", func() bool {
		all := stacks[:runtime.Stack(stacks, true)]
		return !bytes.Contains(all, []byte("upstream.(*process)")) && !bytes.Contains(all, []byte("jsonrpc.(*Writer)"))
	})
}

// eventually looks until ok; what it looks at has no event to wait for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(processPatience)
	for !ok() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("not so within %v: %s", processPatience, what)
		}
	}
}

func request(id int64, params string) outgoing {
	return outgoing{id: id, line: jsonrpc.AppendRequest(nil, fmt.Append(nil, id), "echo", []byte(params))}
}

func (p *process) mustSend(t *testing.T, m outgoing) {
	t.Helper()
	if err := p.send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestProcessAnswers(t *testing.T) {
	p, heard := start(t, roleCommand(t, "echo"), nil)
	p.mustSend(t, request(1, `{"a":1}`))
	heard.want(t, `message {"jsonrpc":"2.0","id":1,"result":{"a":1}}`)
	large := `{"text":"` + strings.Repeat("é", 200_000) + `"}`
	p.mustSend(t, request(2, large))
	heard.want(t, `message {"jsonrpc":"2.0","id":2,"result":`+large+`}`)
	p.close()
	p.close()
	heard.want(t, "closed: ended by the proxy")
	if err := p.send(t.Context(), request(3, "{}")); err == nil {
		t.Error("got no error from send after close")
	}
}

func TestProcessEnds(t *testing.T) {
	tests := map[string]struct {
		role string
		want string
	}{
		"crash during a call": {"crash", "closed: exited with status 3"},
		"signal":              {"suicide", "closed: killed by signal 9 (killed)"},
		"output closed":       {"mute", "closed: closed its output"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			command := roleCommand(t, test.role)
			if test.role == "mute" { // the others must be waited for, on a slow machine too
				command.StopGrace = 50 * time.Millisecond
			}
			p, heard := start(t, command, nil)
			_ = p.send(t.Context(), request(1, "{}"))
			heard.want(t, test.want)
			<-p.done
			p.close()
		})
	}
}

func TestProcessKeepsLastWords(t *testing.T) {
	p, heard := start(t, roleCommand(t, "crash"), nil)
	p.mustSend(t, request(1, "{}"))
	heard.want(t, "closed: exited with status 3")
	if got, want := strings.Join(p.stderr(nil), "|"), "about to fail|no line end"; got != want {
		t.Errorf("got stderr %q, want %q", got, want)
	}
}

func TestProcessRubbish(t *testing.T) {
	_, heard := start(t, roleCommand(t, "rubbish"), nil)
	heard.want(t,
		"garbage Server listening",
		`garbage {"jsonrpc":"2.0","id":7`, "lost 7",
		`garbage {"jsonrpc":"2.0","id":8`, // a broken question is no lost answer
		`garbage {"jsonrpc":"2.0","id":9`, // who knows
		`message {"jsonrpc":"2.0","id":1,"result":{}}`,
		`message {"jsonrpc":"2.0","method":"note"}`,
		`garbage [{"jsonrpc":"2.0"`,
		`message {"jsonrpc":"2.0","id":2,"result":{}}`,
		"closed: exited with status 0",
	)
}

func TestProcessLongLine(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, heard := start(t, roleCommand(t, "long"), nil)
	p.mustSend(t, request(6, "{}"))
	heard.want(t, `garbage {"jsonrpc":"2.0","id":5`, "lost 5", `message {"jsonrpc":"2.0","id":6,"result":{}}`)
	runtime.ReadMemStats(&after)
	if got, want := after.TotalAlloc-before.TotalAlloc, uint64(16<<20); got > want {
		t.Errorf("got %d bytes allocated for a line of 200 MiB with a limit of 1 MiB, want at most %d", got, want)
	}
}

func TestProcessFloodsStderr(t *testing.T) {
	p, heard := start(t, roleCommand(t, "flood"), nil)
	p.mustSend(t, request(1, "{}"))
	heard.want(t, `message {"jsonrpc":"2.0","id":1,"result":{}}`)
	p.close()
	heard.want(t, "closed: ended by the proxy")
	lines := p.stderr(nil)
	if len(lines) != tailLines {
		t.Fatalf("got %d lines, want %d", len(lines), tailLines)
	}
	if got := len(lines[0]); got > tailWidth || got < tailWidth-len("noise ") {
		t.Errorf("got a line of %d bytes, want it cut at %d", got, tailWidth)
	}
}

func TestProcessThatDoesNotEnd(t *testing.T) {
	command := roleCommand(t, "stubborn")
	command.StopGrace = 10 * time.Millisecond
	p, heard := start(t, command, nil)
	heard.want(t, `message {"jsonrpc":"2.0","method":"ready"}`)
	p.close()
	heard.want(t, "closed: ended by the proxy")
	if p.family.state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("got %v, want an end by SIGKILL", p.family.state)
	}
}

func TestSendDoesNotWaitForADeafProcess(t *testing.T) {
	command := roleCommand(t, "deaf")
	command.StopGrace = 10 * time.Millisecond // nothing it is told will end it
	p, heard := start(t, command, nil)
	heard.want(t, `message {"jsonrpc":"2.0","method":"ready"}`)
	m := request(1, `{"text":"`+strings.Repeat("x", 8<<20)+`"}`)
	var err error
	sent := 0
	for ; err == nil && sent < 100; sent++ {
		err = p.send(context.Background(), m)
	}
	if err == nil || !strings.Contains(err.Error(), "does not read its input") {
		t.Errorf("got error %v after %d messages, want that it does not read", err, sent)
	}
	if sent < 5 {
		t.Errorf("got the error after %d messages already", sent)
	}
	p.close()
	heard.want(t, "closed: ended by the proxy")
}

func TestProcessEndsDespiteGrandchild(t *testing.T) {
	for _, role := range []string{"parent", "strangeChild"} {
		t.Run(role, func(t *testing.T) {
			p, heard := start(t, roleCommand(t, role), nil)
			var pid int
			event := heard.next(t)
			if _, err := fmt.Sscanf(event, `message {"jsonrpc":"2.0","method":"left","params":{"pid":%d}}`, &pid); err != nil {
				t.Fatalf("got %q: %v", event, err)
			}
			heard.want(t, "closed: exited with status 0")
			if role == "parent" {
				wantGone(t, pid)
				return
			}
			if !alive(pid) {
				t.Error("a process outside the group was ended")
			}
			syscall.Kill(pid, syscall.SIGKILL)
			<-p.done
		})
	}
}

// What a process outside the group holds open does not hold up an end that must be quick.
func TestProcessEndsFastDespiteGrandchild(t *testing.T) {
	heard, fast := make(record, 1000), make(chan struct{})
	close(fast)
	p, err := startProcess(roleCommand(t, "strangeChild"), nil, fast, heard.sink())
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscanf(heard.next(t), `message {"jsonrpc":"2.0","method":"left","params":{"pid":%d}}`, &pid); err != nil {
		t.Fatal(err)
	}
	<-p.family.exited
	began := time.Now()
	<-p.done
	if took := time.Since(began); took > lastWords-lastGrace {
		t.Errorf("the end took %v", took)
	}
	syscall.Kill(pid, syscall.SIGKILL)
}

// alive says whether a process runs; one that nobody has waited for does not.
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
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !alive(pid) })
	}
}

// A process that ends may have run what it had been handed, and nothing else.
func TestSentToAProcess(t *testing.T) {
	spec := Spec{Name: "frail", Command: Command{Path: os.Args[0], Env: []string{mcptest.Options{}.Env()}}, StartTimeout: processPatience}
	var heard diary
	u := New(spec, Options{Invalidated: heard.write})
	defer u.Close()
	l := u.Attach(Client{}, Listener{})
	l.AwaitOffer(t.Context())
	heard.turn()

	change := &Request{Method: "tools/call", Params: []byte(`{"name":"change","arguments":{}}`)}
	if answer, err := l.Call(t.Context(), l.Turn(), change); err != nil || !answer.Sent {
		t.Errorf("got sent %v beside %v", answer.Sent, err)
	}
	heard.want(t, "list_changed") // it came before the answer
	die := &Request{Method: "tools/call", Params: []byte(`{"name":"die","arguments":{}}`)}
	if answer, err := l.Call(t.Context(), l.Turn(), die); !errors.Is(err, errEnded) || !answer.Sent {
		t.Errorf("got sent %v beside %v", answer.Sent, err)
	}
	if got := heard.turn(); len(got) == 0 || got[0] != "exit" {
		t.Errorf("got %q, want the exit", got)
	}
}

func TestNoProcessIsSentNothing(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "missing", Command: Command{Path: "/no/such/program"}},
		{Name: "unset", Unusable: errors.New("TOKEN: not set")},
		{Name: "refuses", Command: Command{Path: os.Args[0], Env: []string{mcptest.Options{Start: "refuse"}.Env()}}},
	} {
		spec.StartTimeout = processPatience
		u := New(spec, Options{})
		l := u.Attach(Client{}, Listener{})
		if answer, err := callEcho(t.Context(), l); err == nil || answer.Sent {
			t.Errorf("%s: got sent %v beside %v", spec.Name, answer.Sent, err)
		}
		u.Close()
	}
}
