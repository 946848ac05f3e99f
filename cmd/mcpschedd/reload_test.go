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

// TestReloadOfTheLog changes level and file of a running proxy's log.
func TestReloadOfTheLog(t *testing.T) {
	dir := t.TempDir()
	file, elsewhere := filepath.Join(dir, "c.toml"), filepath.Join(dir, "logs", "a.log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("[log]\nlevel = \"error\"\n")
	c, err := config.Default().Load(file)
	if err != nil {
		t.Fatal(err)
	}
	stderr := make(records, 100)
	log, output, err := openLog(c.Log, daemon.OpenLog(t.TempDir(), daemon.ProgramLog), stderr)
	if err != nil {
		t.Fatal(err)
	}
	srv := proxy.New(options(c, state.Dir{}, log), nil)
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	s := &servedProxy{config: c, dir: openState(t), log: log, output: output, srv: srv}
	watching.Go(func() { s.watch(ctx, func() []workplace { return nil }, nil, s.applyConfig) })
	defer watching.Wait()
	defer cancel()
	wantOnStderr := func(want string) {
		t.Helper()
		select {
		case got := <-stderr:
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("got nothing logged for 20 s, want %s", want)
		}
	}

	write("[log]\nlevel = \"info\"\n")
	wantOnStderr("configuration reloaded")
	write(fmt.Sprintf("[log]\nfile = %q\n", filepath.Join(file, "no-folder")))
	wantOnStderr("log moved")
	wantOnStderr("configuration not reloaded; the previous one stays in force")
	write(fmt.Sprintf("[log]\nfile = %q\n", elsewhere))
	wantOnStderr("log moved")
	write("[log]\n[http]\nmax_sessions = 99\n[daemon]\nidle = \"1m\"\n") // the first reload is applied before the next line is read
	wantOnStderr(`msg="changed, but needs a restart" keys="http, daemon"`)
	wantOnStderr("configuration reloaded")
	write("[log]\n") // as at the start, so nothing needs a restart
	wantOnStderr("configuration reloaded")
	if text, err := os.ReadFile(elsewhere); err != nil || strings.Count(string(text), "configuration reloaded") != 1 {
		t.Errorf("got %q and %v, want the one reload in that file", text, err)
	}
}

// TestReloadKeepsThePolicy changes the file of a running proxy to one with invalid tools. The
// error is logged once, and the old policy stays until the next valid file.
func TestReloadKeepsThePolicy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("[upstreams.a]\ncommand = \"no-such-command\"\n")
	c, err := config.Default().Load(file)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	srv := proxy.New(options(c, state.Dir{}, quiet), nil)
	defer srv.Close()

	log := make(records, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	logger, output, err := openLog(c.Log, daemon.OpenLog(t.TempDir(), daemon.ProgramLog), log)
	if err != nil {
		t.Fatal(err)
	}
	p := &servedProxy{config: c, dir: openState(t), log: logger, output: output, srv: srv}
	watching.Go(func() { p.watch(ctx, func() []workplace { return nil }, nil, p.applyConfig) })
	defer watching.Wait()
	defer cancel()
	next := func() string {
		select {
		case line := <-log:
			return line
		case <-time.After(20 * time.Second):
			t.Fatal("got nothing logged for 20 s")
			return ""
		}
	}

	write("[upstreams.b]\ncommand = \"no-such-command\"\n[tools.x]\nfollow_up = [{ tool = \"y\", args = { a = \"$reslt\" } }]\n")
	if got := next(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "c.toml:4: tools.x.follow_up[0].args.a: ") {
		t.Errorf("got %s, want the error with its position", got)
	}
	if !srv.Has("a") || srv.Has("b") {
		t.Error("got the new policy, want the old one")
	}
	write("[upstreams.c]\ncommand = \"no-such-command\"\n")
	if got := next(); !strings.Contains(got, "configuration reloaded") {
		t.Errorf("got %s, want a reload, and no second error", got)
	}
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
	write := func(name, text string) {
		t.Helper()
		writeFile(t, filepath.Join(dir, name), text)
	}
	watchConfig(t, d)
	write("red.env", "")
	write("blue.env", "")
	for _, team := range []string{"red", "blue"} {
		client := &daemon.Client{Hello: daemon.Hello{Dir: dir, Env: []string{"TEAM=" + team}}}
		r, err := d.enter(t.Context(), client, dir)
		if err != nil {
			t.Fatal(err)
		}
		write("c.toml", "x"+team)
		tries := 0
		eventually(t, team, func() bool {
			tries++ // the file may not have been watched at the first
			write(team+".env", fmt.Sprintf("TOKEN=%s\n#%d", team, tries))
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
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.base.watch(ctx, d.workplaces, d.again, d.applyConfig)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// newDaemonProcess returns a daemon that serves no workplace yet.
func newDaemonProcess(t *testing.T) *daemonProcess {
	t.Helper()
	quiet, dir := slog.New(slog.DiscardHandler), openState(t)
	base := &servedProxy{config: config.Default(), dir: dir, log: quiet}
	common := proxy.NewCommon(options(base.config, dir, quiet))
	d := &daemonProcess{base: base, common: common, hooks: hook.New(hook.Effects{}), guard: upstream.NewGuard(quiet), proxies: make(map[string]*servedProxy), again: make(chan struct{}, 1)}
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
