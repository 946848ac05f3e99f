package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/paths"
)

// daemonTest is a configuration for clients that use a daemon.
type daemonTest struct {
	*testing.T
	file, state string
	wait        string // how long the daemon waits without clients; "" means long
	executable  string // program of the clients, and so of the daemon and its guard; "" means self
}

// newDaemonTest writes the configuration. When the test ends, its daemon must have ended too,
// without a panic or a race in its log.
func newDaemonTest(t *testing.T, config string) *daemonTest {
	t.Helper()
	dir := t.TempDir()
	d := &daemonTest{T: t, file: filepath.Join(dir, "pipeline_config.toml"), state: filepath.Join(dir, "mcpschedd")}
	writeFile(t, d.file, config+"[daemon]\nidle = \"2s\"\n")
	t.Cleanup(func() {
		d.wantEnded()
		log, _ := os.ReadFile(filepath.Join(d.state, "logs", "daemon.log")) // missing if there was no daemon
		if regexp.MustCompile(`(?m)^(panic|fatal error|WARNING: DATA RACE)`).Match(log) {
			t.Errorf("the daemon wrote %s", log)
		}
	})
	return d
}

// wantEnded waits until the daemon has ended, so that another one could start.
func (d *daemonTest) wantEnded() {
	d.Helper()
	l, err := daemon.Listen(d.place(), daemon.ListenOptions{Wait: 30 * time.Second})
	if err != nil {
		d.Errorf("the daemon outlives its clients: %v", err)
		return
	}
	at, end := context.WithCancel(d.Context())
	end()
	l.Run(at, func() {})
}

func (d *daemonTest) place() daemon.Place {
	d.Helper()
	p, err := daemon.NewPlace(d.state, d.file)
	if err != nil {
		d.Fatal(err)
	}
	return p
}

// command returns a command with this configuration, in a folder.
func (d *daemonTest) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, slices.Concat(args[:1], []string{"--config", d.file}, args[1:])...)
	cmd.Dir, cmd.Env = dir, d.env()
	return cmd
}

// env returns the environment of the test's programs.
func (d *daemonTest) env() []string {
	return append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XDG_STATE_HOME="+filepath.Dir(d.state))
}

// connect starts mcpschedd connect in a folder, with additional variables.
func (d *daemonTest) connect(dir string, env ...string) *program {
	d.Helper()
	return d.connectBy(cmp.Or(d.executable, self), dir, env...)
}

// connectBy is like connect, but with a copy of the program.
func (d *daemonTest) connectBy(path, dir string, env ...string) *program {
	d.Helper()
	return d.start(dir, env, path, "connect", "--config", d.file, "--wait", cmp.Or(d.wait, "30s"))
}

// start starts a program in a folder, with additional variables.
func (d *daemonTest) start(dir string, env []string, path string, args ...string) *program {
	d.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = dir, append(d.env(), env...)
	return started(d.T, cmd, d.state)
}

// process returns the process id of the server that a client's call reaches.
func (d *daemonTest) process(p *program, tool string) string {
	d.Helper()
	answer := p.ask(d.T, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`)
	m := regexp.MustCompile(`"structuredContent":(\d+)`).FindStringSubmatch(answer)
	if m == nil {
		d.Fatalf("%s: got %s", tool, answer)
	}
	return m[1]
}

// Clients that start at the same time start one daemon. In the same folder and with the same
// environment they share the shared server, and each has its own process of the other one. When
// they have left, all processes end.
func TestDaemonShares(t *testing.T) {
	t.Parallel()
	beacon := mcptest.NewGate(t)
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "own", Beacon: beacon.Addr()})+
		upstreamConfig(mcptest.Options{Name: "all", Beacon: beacon.Addr()})+"instances = \"shared\"\n")
	dir := t.TempDir()
	const clients = 5
	own, all := make([]string, clients), make([]string, clients)
	ended := make(chan struct{})
	var working, ending sync.WaitGroup
	for i := range clients {
		working.Add(1)
		ending.Go(func() {
			p := d.connect(dir)
			p.ask(t, hello)
			own[i], all[i] = d.process(p, "own__pid"), d.process(p, "all__pid")
			working.Done()
			<-ended
			p.in.Close()
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		})
	}
	working.Wait()
	close(ended)
	ending.Wait()
	slices.Sort(own)
	if len(slices.Compact(own)) != clients || len(slices.Compact(slices.Clone(all))) != 1 {
		t.Errorf("got processes %v of each, and %v of all", own, all)
	}
	for range clients + 1 {
		beacon.Next().Gone()
	}
	if log := d.log(); strings.Count(log, "serving clients") != 1 {
		t.Errorf("want one daemon, got\n%s", log)
	}
}

// log returns the log of the daemons.
func (d *daemonTest) log() string {
	d.Helper()
	log, err := os.ReadFile(filepath.Join(d.state, "logs", "mcpschedd.log"))
	if err != nil {
		d.Fatal(err)
	}
	return string(log)
}

// The daemon is no descendant of the client that started it: some clients end all descendants of a server.
func TestDaemonIsNoDescendant(t *testing.T) {
	t.Parallel()
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "one"}))
	p := d.connect(t.TempDir())
	p.ask(t, hello)
	daemon := d.daemonProcess()
	mcptest.Eventually(t, "the daemon is a descendant of this test no longer", func() bool {
		pid := daemon
		for pid > 1 && pid != os.Getpid() {
			pid, _ = strconv.Atoi(mcptest.ProcStatus(pid, "PPid"))
		}
		return pid <= 1
	})
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Clients in other folders, also at the same path, or with other values of the configured variables
// share no process. No variable of one client is in a server of another, and no server has a variable
// that is not configured.
func TestDaemonKeepsApart(t *testing.T) {
	t.Parallel()
	config := upstreamConfig(mcptest.Options{Name: "one"})
	d := newDaemonTest(t, strings.Replace(config, "env = { ", `env = { TOKEN = "${TOKEN}", `, 1)+"instances = \"shared\"\n"+
		"[tools.\"*/pid\"]\nside_effect_class = \"pure\"\n") // its answer is cached
	a, b := t.TempDir(), t.TempDir()
	seen := make(map[string]string) // process → client of its server
	for i, client := range []struct{ dir, token string }{{a, "token-1"}, {a, "token-2"}, {b, "token-1"}, {a, "token-1"}} {
		name := client.dir + " " + client.token
		if i == 3 { // another directory takes the path, as when a work tree is removed and added again
			if err := errors.Join(os.Rename(a, a+"-before"), os.Mkdir(a, 0o700)); err != nil {
				t.Fatal(err)
			}
		}
		p := d.connect(client.dir, "TOKEN="+client.token, "AWS_PROFILE=profile-of-"+client.token, "SECRET=secret")
		p.ask(t, hello)
		id := d.process(p, "pid")
		if of, known := seen[id]; known {
			t.Errorf("%s: got the process of %s", name, of)
		}
		seen[id] = name
		env, err := os.ReadFile("/proc/" + id + "/environ")
		if err != nil {
			t.Fatal(err)
		}
		vars := strings.Split(string(env), "\x00")
		if !slices.Contains(vars, "TOKEN="+client.token) || !slices.Contains(vars, "PWD="+client.dir) || !slices.Contains(vars, "PATH="+os.Getenv("PATH")) {
			t.Errorf("%s: got %q", name, vars)
		}
		if i := slices.IndexFunc(vars, func(v string) bool { return strings.HasPrefix(v, "AWS_") || strings.HasPrefix(v, "SECRET") }); i >= 0 {
			t.Errorf("%s: got %s, which the configuration does not name", name, vars[i])
		}
		if cwd, err := os.Readlink("/proc/" + id + "/cwd"); err != nil || cwd != client.dir {
			t.Errorf("%s: works in %s, %v", name, cwd, err)
		}
	}
	id := d.daemonProcess()
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", id))
	if err != nil || strings.Contains(string(env), "token-") || strings.Contains(string(env), "secret") {
		t.Errorf("the daemon has the variables %q, %v", env, err)
	}
	if on := portsOf(t, id); len(on) != 0 {
		t.Errorf("the daemon listens on %q, which web pages could reach", on)
	}
}

// portsOf returns the TCP ports that a process listens on.
func portsOf(t *testing.T, id int) (on []string) {
	t.Helper()
	sockets := make(map[string]bool)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", id))
	if err != nil || len(files) == 0 {
		t.Fatalf("got the files %q of the daemon, %v", files, err)
	}
	for _, file := range files {
		target, _ := os.Readlink(file)
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		lines, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", id, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && sockets[f[9]] {
				on = append(on, f[1])
			}
		}
	}
	return on
}

// daemonProcess returns the process id of the daemon.
func (d *daemonTest) daemonProcess() int {
	d.Helper()
	id := d.daemonID()
	if id == 0 {
		d.Fatal("there is no daemon")
	}
	return id
}

// daemonID returns the id of the process that listens on the daemon's socket; 0 for none.
func (d *daemonTest) daemonID() int {
	d.Helper()
	conn, err := net.Dial("unix", d.place().Socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		d.Fatal(err)
	}
	var peer *unix.Ucred
	if controlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); controlErr != nil || err != nil {
		d.Fatal(controlErr, err)
	}
	return int(peer.Pid)
}

// owns reports whether this test started a process: all of them have its state folder in their
// environment, except guards, which have no environment but run a program of the test.
func (d *daemonTest) owns(id int) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", id))
	if err == nil && bytes.Contains(env, []byte("XDG_STATE_HOME="+filepath.Dir(d.state)+"\x00")) {
		return true
	}
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id))
	return err == nil && program == d.executable
}

// processes returns the processes that this test started.
func (d *daemonTest) processes() (ids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		d.Fatal(err)
	}
	for _, entry := range entries {
		if id, err := strconv.Atoi(entry.Name()); err == nil && d.owns(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// A program with another version of the daemon's protocol starts a second daemon. Each client is
// served by the daemon of its version, and the old daemon ends after its last client.
func TestTwoVersions(t *testing.T) {
	t.Parallel()
	beacon, gate := mcptest.NewGate(t), mcptest.NewGate(t)
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "one", Beacon: beacon.Addr()})+"instances = \"shared\"\n")
	dir, path := t.TempDir(), filepath.Join(t.TempDir(), laterProgram)
	copyFile(t, path, os.Args[0])
	old := d.connect(dir)
	old.ask(t, hello)
	oldServer := d.process(old, "pid")
	oldGone := beacon.Next().Gone
	if _, err := io.WriteString(old.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hold","arguments":{"gate":"`+gate.Addr()+`"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	held := gate.Next() // a call is in flight at the old daemon while the other one starts
	later := d.connectBy(path, dir)
	later.ask(t, hello)
	server := d.process(later, "pid")
	if server == oldServer {
		t.Error("the client of the later program has a server of the old daemon")
	}
	d.watch(dir, `(?s)\nprocess \d+ since [^\n]*, daemon in .*\nprocess \d+ since [^\n]*, daemon in `)
	held.Open()
	if line := old.hears(t, `"id":2`); !strings.Contains(line, `"result"`) || strings.Contains(line, "isError") {
		t.Errorf("the old daemon's client got %s", line)
	}
	old.in.Close()
	if err := old.cmd.Wait(); err != nil {
		t.Error(err)
	}
	oldGone()
	d.wantEnded()
	if again := d.process(later, "pid"); again != server {
		t.Errorf("the client of the later program got the server %s, and then %s", server, again)
	}
	later.in.Close()
	if err := later.cmd.Wait(); err != nil {
		t.Error(err)
	}
	beacon.Next().Gone()
	mcptest.Eventually(t, "the later daemon has ended with its clients", func() bool { return len(d.processes()) == 0 })
}

// A client that finds no daemon and cannot start one is served in its own process.
func TestConnectAlone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, state string) error{
		"a file in place of its folder": func(_ *testing.T, state string) error {
			return os.WriteFile(filepath.Join(state, "daemon"), nil, 0o600)
		},
		"another user's folder": func(_ *testing.T, state string) error {
			return errors.Join(os.Mkdir(filepath.Join(state, "daemon"), 0o777), os.Chown(filepath.Join(state, "daemon"), 4711, 4711))
		},
		"a full disk": func(t *testing.T, state string) error {
			t.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) }) // if it is mounted
			return syscall.Mount("full", state, "tmpfs", 0, "nr_inodes=1")
		},
		"another program's socket": func(t *testing.T, state string) error {
			d := daemonTest{T: t, file: filepath.Join(filepath.Dir(state), "pipeline_config.toml"), state: state}
			l, err := net.Listen("unix", d.place().Socket)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := &daemonTest{T: t, file: filepath.Join(dir, "pipeline_config.toml"), state: filepath.Join(dir, "mcpschedd"), wait: "100ms"}
			writeFile(t, d.file, upstreamConfig(mcptest.Options{Name: "one"}))
			if err := os.MkdirAll(d.state, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := spoil(t, d.state); errors.Is(err, os.ErrPermission) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			p := d.connect(dir)
			p.ask(t, hello)
			server, err := strconv.Atoi(d.process(p, "pid"))
			if err != nil || mcptest.ProcStatus(server, "PPid") != strconv.Itoa(p.cmd.Process.Pid) {
				t.Errorf("got a server of process %s, %v; want one of the client's own process", mcptest.ProcStatus(server, "PPid"), err)
			}
			p.in.Close()
			_, _ = io.Copy(io.Discard, p.out)
			if err := p.cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If the daemon is killed or stopped during a call, the client gets an answer that says so, and the next
// call works.
func TestDaemonKilled(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		endsInACall(t, "outcome unknown", func(d *daemonTest) error { return syscall.Kill(d.daemonProcess(), syscall.SIGKILL) })
	})
	t.Run("stopped", func(t *testing.T) {
		endsInACall(t, "the call may have run", func(d *daemonTest) error {
			err := d.command("/", self, "daemon", "--stop").Run()
			if got := found(t, filepath.Join(d.state, "logs")); !strings.Contains(got, `msg=stopping cause="mcpschedd daemon --stop"`) {
				t.Errorf("log: got %q, want what stopped the daemon", got)
			}
			return err
		})
	})
}

func endsInACall(t *testing.T, want string, end func(*daemonTest) error) {
	t.Parallel()
	beacon, gate := mcptest.NewGate(t), mcptest.NewGate(t)
	d := newDaemonTest(t, upstreamConfig(mcptest.Options{Name: "one", Beacon: beacon.Addr()}))
	p := d.connect(t.TempDir())
	p.ask(t, hello)
	d.process(p, "pid")
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hold","arguments":{"gate":"`+gate.Addr()+`"}}}`+"\n"); err != nil {
		t.Fatal(err)
	}
	held := gate.Next() // the call has reached the server
	if err := end(d); err != nil {
		t.Fatal(err)
	}
	if answer := p.answer(t); !strings.Contains(answer, `"id":2`) || !strings.Contains(answer, want) || !strings.Contains(answer, `"isError":true`) {
		t.Errorf("got %s; want in it %s", answer, want)
	}
	held.Gone()                                               // the server has ended too
	mcptest.Eventually(t, "the client notices", func() bool { // else a stopping daemon may receive the next call
		return strings.Contains(d.log(), "the daemon has ended; reconnecting")
	})
	if answer := p.ask(t, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo"}}`); !strings.Contains(answer, `"text":"one"`) {
		t.Errorf("got %s", answer)
	}
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	for range 2 {
		beacon.Next().Gone()
	}
}

// However the paths of the configuration and of the state directory are written, connect, hook, call
// and stats find the daemon, whose socket is named by a hash of them.
func TestDaemonFoundByAnySpelling(t *testing.T) {
	folder := filepath.Join(t.TempDir(), strings.Repeat("long", 25)) // the state directory is in the hash too
	if err := os.MkdirAll(filepath.Join(folder, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "c.toml")
	t.Setenv("MCPSCHEDD_CONFIG", folder+"//x/../c.toml")
	for _, spelling := range []string{folder + "/state/", folder + "//x/../state", "state/"} {
		writeFile(t, file, fmt.Sprintf("server.state_dir = %q\n", spelling))
		c, err := load("")
		if err != nil {
			t.Fatal(err)
		}
		dir, err := stateDir(c)
		if err != nil {
			t.Fatal(err)
		}
		place, err := daemon.NewPlace(dir.Path(""), c.Path) // as the daemon does
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", place.Socket)
		if err != nil {
			t.Fatal(err)
		}
		located, path, err := paths.Locate("", os.Getenv)
		if _, runs := daemon.Find(located, path); err != nil || !runs {
			t.Errorf("state_dir %q: connect looks in %q for %q, %v, want the daemon", spelling, located, path, err)
		}
		if _, runs := daemonOf(c); !runs {
			t.Errorf("state_dir %q: call and stats do not find the daemon", spelling)
		}
		l.Close()
	}
}
