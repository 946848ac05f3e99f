package valkey_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
)

// store is a real Valkey or Redis server on this machine.
type store struct {
	t    testing.TB
	args []string
	env  []string // in addition to the environment of the test
	addr string

	mu  sync.Mutex
	cmd *exec.Cmd
}

// startServer starts a server without persistence, with further arguments.
func startServer(t testing.TB, more ...string) *store {
	t.Helper()
	addr, port := freePort(t)
	s := &store{t: t, addr: addr, args: append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir(), "--loglevel", "warning"}, more...)}
	s.start()
	t.Cleanup(func() { s.kill() })
	return s
}

// ahead sets the server's clock ten minutes ahead, from its next start on.
func (s *store) ahead() {
	s.t.Helper()
	dir := s.t.TempDir()
	code, lib := filepath.Join(dir, "ahead.c"), filepath.Join(dir, "ahead.so")
	text := `#include <sys/time.h>
#include <sys/syscall.h>
#include <unistd.h>
int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	int r = syscall(SYS_gettimeofday, t, zone);
	t->tv_sec += 600;
	return r;
}
`
	if err := os.WriteFile(code, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", lib, code).CombinedOutput(); err != nil { // cc is also needed by the race detector
		s.t.Fatalf("%v: %s", err, out)
	}
	s.env = []string{"LD_PRELOAD=" + lib}
}

// program returns the server's program. It fails the test if the program is required and missing.
func program(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("MCPSCHEDD_NEEDS_VALKEY") != "" {
		t.Fatal("neither valkey-server nor redis-server is installed")
	}
	t.Skip("neither valkey-server nor redis-server is installed (apt-get install redis-server)")
	return ""
}

// start starts the server, and returns when it replies.
func (s *store) start() {
	s.t.Helper()
	path := program(s.t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(path, s.args...)
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	log, err := os.OpenFile(filepath.Join(s.t.TempDir(), "server.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { log.Close() })
	s.cmd.Stdout = struct{ io.Writer }{log} // through a pipe, of which Wait waits for the end
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			c.Close()
			return
		}
	}
	s.t.Error("the server does not listen")
}

// kill kills the server with its child that saves, which has the pipe too and writes to the folder. It
// returns when both have ended.
func (s *store) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// signal sends it a signal.
func (s *store) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(sig)
	}
}

// cable is a TCP proxy to the server that can be cut.
type cable struct {
	l    net.Listener
	to   string
	mu   sync.Mutex
	cut  bool
	ends map[net.Conn]bool
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{l: l, to: to, ends: make(map[net.Conn]bool)}
	go c.serve()
	t.Cleanup(func() { l.Close(); c.setCut(true) })
	return c
}

func (c *cable) addr() string { return c.l.Addr().String() }

func (c *cable) serve() {
	for {
		near, err := c.l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", c.end())
		if err != nil || !c.add(near, far) {
			near.Close()
			if far != nil {
				far.Close()
			}
			continue
		}
		carry := func(to, from net.Conn) { _, _ = io.Copy(to, from); to.Close(); from.Close() }
		go carry(near, far)
		go carry(far, near)
	}
}

func (c *cable) add(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return false
	}
	for _, e := range ends {
		c.ends[e] = true
	}
	return true
}

// lead connects the cable to another server.
func (c *cable) lead(to string) {
	c.setCut(true)
	c.mu.Lock()
	c.to = to
	c.mu.Unlock()
	c.setCut(false)
}

// end returns the server's address.
func (c *cable) end() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.to
}

// setCut cuts or repairs the cable.
func (c *cable) setCut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	if cut {
		for e := range c.ends {
			e.Close()
		}
		clear(c.ends)
	}
}

// freePort returns a port for a server, and its address.
func freePort(t testing.TB) (addr, port string) {
	t.Helper()
	port = mcptest.FreePort(t)
	return net.JoinHostPort("127.0.0.1", port), port
}

// dayLong is longer than any test.
const dayLong = 24 * time.Hour

// command runs a command at the server.
func (s *store) command(t *testing.T, words ...string) {
	t.Helper()
	if reply, err := s.try(words...); err != nil || reply[0] == '-' {
		t.Fatalf("%s: %s (%v)", words[0], reply, err)
	}
}

// try runs a command at a server that may be stopped.
func (s *store) try(words ...string) (reply string, err error) {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
	}
	return bufio.NewReader(c).ReadString('\n')
}

// follow makes the server a standby of another one, or a primary if that is nil.
func (s *store) follow(primary *store) {
	host, port := "NO", "ONE"
	if primary != nil {
		host, port, _ = net.SplitHostPort(primary.addr)
	}
	_, _ = s.try("REPLICAOF", host, port)
}

// group is a primary with two standbys.
type group []*store

func startGroup(t testing.TB) group {
	t.Helper()
	quick := []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	g := group{startServer(t, quick...)}
	for range 2 {
		_, port, _ := net.SplitHostPort(g[0].addr)
		g = append(g, startServer(t, append(quick, "--replicaof", "127.0.0.1 "+port)...))
	}
	return g
}

// startSentinel starts a Sentinel for the group, and returns its URL for replicas.
func (g group) startSentinel(t testing.TB) (url string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(g[0].addr)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := "sentinel monitor group 127.0.0.1 " + port + " 1\nsentinel down-after-milliseconds group 300\nsentinel failover-timeout group 2000\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, own := freePort(t)
	s := &store{t: t, addr: addr, args: []string{config, "--sentinel", "--bind", "127.0.0.1", "--port", own}}
	s.start()
	t.Cleanup(s.kill)
	return "valkey://" + addr + "?master_set=group&servers=3"
}

// reunite makes the first server the primary of all others and of the cables.
func (g group) reunite(cables []*cable) {
	g[0].follow(nil)
	for _, other := range g[1:] {
		other.follow(g[0])
	}
	for _, c := range cables {
		c.lead(g[0].addr)
	}
}

// promote promotes a standby without coordination: the other servers and the cables follow after a
// random time, or not at all.
func (g group) promote(cables []*cable) {
	next := g[rand.IntN(len(g))]
	steps := []func(){func() { next.follow(nil) }}
	for _, other := range g {
		if other != next && rand.IntN(3) > 0 {
			steps = append(steps, func() { other.follow(next) })
		}
	}
	for _, c := range cables {
		if rand.IntN(2) == 0 {
			steps = append(steps, func() { c.lead(next.addr) })
		}
	}
	rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
		if rand.IntN(2) == 0 {
			time.Sleep(rand.N(300 * time.Millisecond))
		}
	}
}
