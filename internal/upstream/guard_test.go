//go:build unix

package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/guard"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/revision"
)

// serveFamily starts a process tree and keeps running.
func serveFamily(program string) {
	guard := NewGuard(slog.New(slog.DiscardHandler))
	u := New(Spec{Name: "family", Command: Command{Path: program, Env: os.Environ()}, StartTimeout: processPatience}, Quiet(Options{Guard: guard}))
	l := u.Attach(revision.Client{}, Listener{})
	_, err := callEcho(context.Background(), l)
	fmt.Println(err)
	time.Sleep(time.Minute)
}

// startProxy runs serveFamily and returns its pid and those of the process tree.
func startProxy(t *testing.T) (proxy *os.Process, family []int) {
	t.Helper()
	gate := mcptest.NewGate(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{proxyVariable + "=" + mcptest.ServerProgram(t), mcptest.Options{Family: true, Stubborn: true, Beacon: gate.Addr()}.Env()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "<nil>\n" {
		t.Fatalf("got %q: %v", line, err)
	}
	return cmd.Process, []int{gate.Next().PID, gate.Next().PID}
}

// guardsOf returns the guard processes of parent.
func guardsOf(t *testing.T, parent int) (found []int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("looks for the guard in /proc")
	}
	for _, pid := range mcptest.ChildrenOf(parent) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if string(line) == os.Args[0]+"\x00"+guard.Command+"\x00" {
			found = append(found, pid)
		}
	}
	return found
}

// guardOf waits for a guard process of parent other than not.
func guardOf(t *testing.T, parent, not int) (found int) {
	t.Helper()
	mcptest.Eventually(t, "there is a guard process", func() bool {
		others := slices.DeleteFunc(guardsOf(t, parent), func(pid int) bool { return pid == not })
		if len(others) > 0 {
			found = others[0]
		}
		return len(others) > 0
	})
	return found
}

func TestGuardEndsTheFamilyOfAKilledProxy(t *testing.T) {
	proxy, family := startProxy(t)
	for _, pid := range family {
		if !alive(pid) {
			t.Fatalf("process %d does not run", pid)
		}
	}
	proxy.Kill()
	wantGone(t, family...)
}

// TestGuardRunsOnceStarted checks that no server can start before the guard process runs.
func TestGuardRunsOnceStarted(t *testing.T) {
	guardsOf(t, os.Getpid()) // skips the test if they cannot be found
	before := mcptest.ChildrenOf(os.Getpid())
	g := NewGuard(slog.New(slog.DiscardHandler))
	defer g.Close()
	g.start()
	after := mcptest.ChildrenOf(os.Getpid()) // a process has no command line for a moment after it was started
	started := slices.DeleteFunc(after, func(pid int) bool { return slices.Contains(before, pid) })
	if len(started) != 1 || guardOf(t, os.Getpid(), 0) != started[0] {
		t.Errorf("got the new processes %v, want a guard", started)
	}
}

// A killed guard is replaced even without a new server, and so is the one that replaced it. The last
// one gets the process groups, and ignores signals.
func TestGuardIsReplaced(t *testing.T) {
	proxy, family := startProxy(t)
	killed := 0
	for range 2 {
		killed = guardOf(t, proxy.Pid, killed)
		syscall.Kill(killed, syscall.SIGKILL)
	}
	last := guardOf(t, proxy.Pid, killed)
	if !alive(family[0]) {
		t.Fatal("the end of the guard ended a process")
	}
	mcptest.Eventually(t, "the guard ignores signals", func() bool { return mcptest.Ignores(last, int(syscall.SIGTERM)) })
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		syscall.Kill(last, sig)
	}
	proxy.Kill()
	wantGone(t, append(family, last)...)
}

// After the guard was killed, a new one starts with the next server.
func TestGuardStartsWithAServer(t *testing.T) {
	server := faulty(t, mcptest.Options{})
	g := NewGuard(slog.New(slog.DiscardHandler))
	defer g.Close()
	g.start()
	syscall.Kill(guardOf(t, os.Getpid(), 0), syscall.SIGKILL)
	mcptest.Eventually(t, "the guard has exited", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.exited && g.pipe == nil
	})
	run(t, server, Options{Guard: g}).process(t)
	if len(guardsOf(t, os.Getpid())) == 0 {
		t.Error("there is no guard")
	}
}

// The guard gets the group of each process that starts, and each end.
func TestGuardIsToldTheGroups(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g := NewGuard(slog.New(slog.DiscardHandler))
	g.pipe = w
	v := run(t, faulty(t, mcptest.Options{}), Options{Guard: g})
	pid := v.process(t).leader.Pid
	v.Close()
	g.Close()
	g.Close()
	if told, _ := io.ReadAll(r); string(told) != fmt.Sprintf("+%d\n-%d\n", pid, pid) {
		t.Errorf("got %q", told)
	}
	run(t, faulty(t, mcptest.Options{}), Options{Guard: g}).Close()
}

func TestGuardCloseEndsWhatIsLeft(t *testing.T) {
	guard := NewGuard(slog.New(slog.DiscardHandler))
	p := run(t, faulty(t, mcptest.Options{}), Options{Guard: guard}).process(t)
	guard.Close()
	<-p.c.life.Done()
	if got := p.state.String(); got != "signal: terminated" {
		t.Errorf("got %s", got)
	}
}
