package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/hook"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/state"
	"mcpschedd/internal/upstream"
)

// records receives each record of a log when it is written.
type records chan string

func (r records) Write(record []byte) (int, error) {
	r <- string(record)
	return len(record), nil
}

// replaceFile replaces a file at once, as editors do.
func replaceFile(t *testing.T, file, text string) {
	t.Helper()
	writeFile(t, file+".new", text)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// watched serves a configuration and watches it. It returns a function that checks the next line of the log.
func watched(t *testing.T, file string) (srv *proxy.Server, logs func(wants ...string)) {
	t.Helper()
	c, err := config.Default().Load(file)
	if err != nil {
		t.Fatal(err)
	}
	stderr := make(records, 100)
	log, output, err := openLog(c.Log, daemon.OpenLog(t.TempDir(), daemon.ProgramLog), stderr)
	if err != nil {
		t.Fatal(err)
	}
	srv = proxy.New(proxyOptions(ownWorkplace(), c, state.Dir{}, slog.New(slog.DiscardHandler)), nil)
	t.Cleanup(srv.Close)
	s := &servedProxy{config: c, dir: openState(t), log: log, output: output, srv: srv}
	inBackground(t, func(ctx context.Context) { s.watch(ctx, func() []workplace { return nil }, nil, s.applyConfig) })
	return srv, func(wants ...string) {
		t.Helper()
		select {
		case got := <-stderr:
			for _, want := range wants {
				if !strings.Contains(got, want) {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("got nothing logged for 20 s, want %s", wants)
		}
	}
}

// TestReloadOfTheLog changes level and file of a running proxy's log.
func TestReloadOfTheLog(t *testing.T) {
	dir := t.TempDir()
	file, elsewhere := filepath.Join(dir, "c.toml"), filepath.Join(dir, "logs", "a.log")
	writeFile(t, file, "[log]\nlevel = \"error\"\n")
	_, logs := watched(t, file)
	replaceFile(t, file, "[log]\nlevel = \"info\"\n")
	logs("configuration reloaded")
	replaceFile(t, file, fmt.Sprintf("[log]\nfile = %q\n", filepath.Join(file, "no-folder")))
	logs("log moved")
	logs("configuration not reloaded; the previous one stays in force")
	replaceFile(t, file, fmt.Sprintf("[log]\nfile = %q\n", elsewhere))
	logs("log moved")
	replaceFile(t, file, "[log]\n[http]\nmax_sessions = 99\n[daemon]\nidle = \"1m\"\n") // the first reload is applied before the next line is read
	logs(`msg="changed, but needs a restart" keys="http.max_sessions, daemon.idle"`)
	logs("configuration reloaded")
	replaceFile(t, file, "[log]\n") // as at the start, so nothing needs a restart
	logs("configuration reloaded")
	if text, err := os.ReadFile(elsewhere); err != nil || strings.Count(string(text), "configuration reloaded") != 1 {
		t.Errorf("got %q and %v, want the one reload in that file", text, err)
	}
}

// TestReloadKeepsThePolicy changes the file of a running proxy to one with invalid tools. The
// error is logged once, and the old policy stays until the next valid file.
func TestReloadKeepsThePolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	writeFile(t, file, "[upstreams.a]\ncommand = \"no-such-command\"\n")
	srv, logs := watched(t, file)
	replaceFile(t, file, "[upstreams.b]\ncommand = \"no-such-command\"\n[tools.x]\nfollow_up = [{ tool = \"y\", args = { a = \"$reslt\" } }]\n")
	logs("level=ERROR", "c.toml:4: tools.x.follow_up[0].args.a: ")
	if !srv.Has("a") || srv.Has("b") {
		t.Error("got the new policy, want the old one")
	}
	replaceFile(t, file, "[upstreams.c]\ncommand = \"no-such-command\"\n")
	logs("configuration reloaded") // and no second error
	if srv.Has("a") || !srv.Has("c") {
		t.Error("got the old policy, want the new one")
	}
}

// The first client in a directory is told of a mistake that was made in the file while the daemon ran.
func TestReloadTellsNewWorkplaces(t *testing.T) {
	dir := t.TempDir()
	_, err := config.Default().Parse(filepath.Join(dir, "c.toml"), []byte("[enrichment]\nmodus = 1\n"))
	d := newDaemonProcess(t)
	for _, want := range []error{err, nil} {
		d.applyConfig(d.base.config, want)
		r, err := d.enter(t.Context(), &daemon.Client{Hello: daemon.Hello{Dir: t.TempDir()}}, dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.srv.View().Stats.Config.Error; (got != "") != (want != nil) {
			t.Errorf("after the error %v: got %q", want, got)
		}
	}
}

// A change that comes while the daemon serves no workplace binds the next one: here a new token budget,
// whose window is shorter than the default.
func TestReloadWithoutWorkplaces(t *testing.T) {
	d := newDaemonProcess(t)
	next, err := config.Default().Parse("c.toml", []byte("[budgets]\npool_tokens = 1000\nwindow = \"1h\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	d.applyConfig(next, nil)
	r, err := d.enter(t.Context(), &daemon.Client{Hello: daemon.Hello{Dir: t.TempDir()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if pool := r.srv.View().Stats.Running[0].Pool; pool == nil || pool.Tokens != 1000 || pool.LeftS > 3600 {
		t.Errorf("got %+v, want 1000 tokens for at most an hour", pool)
	}
}

// While mistakes leave no server in force, a file with mistakes is used as far as it would be at the start.
func TestReloadWhileNothingIsServed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	d := newDaemonProcess(t)
	d.base.config.Path = file
	watchConfig(t, d)
	r, err := d.enter(t.Context(), &daemon.Client{Hello: daemon.Hello{Dir: t.TempDir()}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		text, mistake string
		one, two      bool // whether they are served
	}{
		{"[enrichment]\nmodus = 1\n[upstreams.one]\ncommand = \"x\"\n", "modus", false, false},
		{"[upstreams.one]\ncomand = \"x\"\n", "one.comand", true, false},
		{"[upstreams.one]\nurls = \"x\"\n[upstreams.two]\ncommand = \"x\"\n", "one.urls", true, true},
		{"[upstreams.one]\ncwt = \"y\"\n", "one.cwt", true, true}, // the previous one stays, as it has a server
	} {
		writeFile(t, file, step.text)
		eventually(t, step.text, func() bool {
			mistakes := r.srv.View().Stats.Config.Error
			return strings.Contains(mistakes, step.mistake) && r.srv.Has("one") == step.one && r.srv.Has("two") == step.two
		})
	}
}

// An edited env file reaches the servers of the workplaces that have it, even while the configuration has
// mistakes, which are still reported.
func TestReloadOfEnvFiles(t *testing.T) {
	dir := t.TempDir()
	d := newDaemonProcess(t)
	c, err := config.Default().Parse(filepath.Join(dir, "c.toml"), []byte("[upstreams.a]\ncommand = \"no-such-${TOKEN}\"\nenv_file = \"${TEAM}.env\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	d.base.config = c
	watchConfig(t, d)
	writeFile(t, filepath.Join(dir, "red.env"), "")
	writeFile(t, filepath.Join(dir, "blue.env"), "")
	for _, team := range []string{"red", "blue"} {
		client := &daemon.Client{Hello: daemon.Hello{Dir: dir, Env: []string{"TEAM=" + team}}}
		r, err := d.enter(t.Context(), client, dir)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "c.toml"), "x"+team)
		tries := 0
		eventually(t, team, func() bool {
			tries++ // the file may not have been watched at the first
			writeFile(t, filepath.Join(dir, team+".env"), fmt.Sprintf("TOKEN=%s\n#%d", team, tries))
			got := r.srv.Survey(t.Context(), func(string) {})[0].Problem
			return got != nil && strings.Contains(got.Error(), "no-such-"+team) && strings.Contains(r.srv.View().Stats.Config.Error, "c.toml:1")
		})
	}
}

// eventually waits until something is true, which it asks less often than a configuration is read.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(150 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%s: it is not true after 20 s", what)
		}
	}
}

// watchConfig watches the daemon's configuration until the end of the test.
func watchConfig(t *testing.T, d *daemonProcess) {
	inBackground(t, func(ctx context.Context) { d.base.watch(ctx, d.workplaces, d.rescan, d.applyConfig) })
}

// inBackground runs f until the end of the test.
func inBackground(t *testing.T, f func(context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// newDaemonProcess returns a daemon that serves no workplace yet.
func newDaemonProcess(t *testing.T) *daemonProcess {
	t.Helper()
	quiet, dir := slog.New(slog.DiscardHandler), openState(t)
	base := &servedProxy{config: config.Default(), dir: dir, log: quiet}
	common := proxy.NewCommon(proxyOptions(ownWorkplace(), base.config, dir, quiet))
	d := &daemonProcess{base: base, common: common, hooks: hook.New(hook.Effects{}), guard: upstream.NewGuard(quiet), rescan: make(chan struct{}, 1)}
	t.Cleanup(func() {
		d.close()
		common.Close()
	})
	return d
}

// openState returns an empty state directory.
func openState(t *testing.T) state.Dir {
	t.Helper()
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
