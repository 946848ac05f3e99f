package config_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/config"
)

// report is one call of Watch's callback: the log level of the configuration, or the error.
type report struct {
	level string
	tuned int // tools in tuned.toml
	err   error
}

// watch watches path on the real file system until the test ends.
func watch(t *testing.T, c *config.Config) <-chan report {
	t.Helper()
	calls := make(chan report, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- config.Watch(ctx, c, func() []string { return nil }, nil, func() {}, func(c *config.Config, err error) {
			if err != nil {
				calls <- report{err: err}
				return
			}
			calls <- report{level: c.Log.Level, tuned: len(c.Tuned)}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch: got %v, want nil once its context has ended", err)
		}
	})
	return calls
}

// until waits for a configuration with this log level. It skips errors and the default level, as Watch
// may read the file between two steps of an editor, when it is missing, empty or not complete.
func until(t *testing.T, calls <-chan report, level string) {
	t.Helper()
	for {
		select {
		case got := <-calls:
			if got.level == level {
				return
			}
			if got.err == nil && got.level != config.Default().Log.Level {
				t.Fatalf("got level %q, want %q", got.level, level)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("got nothing for 20 s, want level %q", level)
		}
	}
}

func toml(level string) string { return "[log]\nlevel = \"" + level + "\"\n" }

func load(t *testing.T, path string) *config.Config {
	t.Helper()
	c, err := config.Default().Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatchSurvivesEditors changes a file in the ways that programs do. It makes each change twice,
// because a watch on the old file would report only the first.
func TestWatchSurvivesEditors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		setup  func(t *testing.T, dir string) string // writes a file with level info and returns its path
		change func(t *testing.T, dir, level string)
	}{
		{"write in place", plainFile, func(t *testing.T, dir, level string) {
			f, err := os.OpenFile(filepath.Join(dir, "c.toml"), os.O_WRONLY|os.O_TRUNC, 0)
			must(t, err)
			for _, b := range []byte(toml(level)) {
				_, err := f.Write([]byte{b})
				must(t, err)
			}
			must(t, f.Close())
		}},
		{"rename over", plainFile, func(t *testing.T, dir, level string) {
			write(t, filepath.Join(dir, "c.toml.new"), toml(level))
			must(t, os.Rename(filepath.Join(dir, "c.toml.new"), filepath.Join(dir, "c.toml")))
		}},
		{"rename away and create", plainFile, func(t *testing.T, dir, level string) {
			must(t, os.Rename(filepath.Join(dir, "c.toml"), filepath.Join(dir, "c.toml~")))
			write(t, filepath.Join(dir, "c.toml"), toml(level))
		}},
		{"delete and create", plainFile, func(t *testing.T, dir, level string) {
			must(t, os.Remove(filepath.Join(dir, "c.toml")))
			write(t, filepath.Join(dir, "c.toml"), toml(level))
		}},
		{"replace the folder", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "folder", "c.toml"), toml("info"))
			return filepath.Join(dir, "folder", "c.toml")
		}, func(t *testing.T, dir, level string) {
			must(t, os.Rename(filepath.Join(dir, "folder"), filepath.Join(dir, "before-"+level)))
			write(t, filepath.Join(dir, "new", "c.toml"), toml(level))
			must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "folder")))
		}},
		{"edit in a replaced folder", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "folder", "c.toml"), toml("info"))
			return filepath.Join(dir, "folder", "c.toml")
		}, func(t *testing.T, dir, level string) {
			if level == "warn" {
				must(t, os.Rename(filepath.Join(dir, "folder"), filepath.Join(dir, "before")))
			}
			write(t, filepath.Join(dir, "folder", "c.toml"), toml(level))
		}},
		{"turn the first of two links", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "files", "info.toml"), toml("info"))
			must(t, os.Mkdir(filepath.Join(dir, "links"), 0o700))
			must(t, os.Symlink(filepath.Join("..", "files", "info.toml"), filepath.Join(dir, "links", "info")))
			must(t, os.Mkdir(filepath.Join(dir, "config"), 0o700))
			must(t, os.Symlink(filepath.Join("..", "links", "info"), filepath.Join(dir, "config", "c.toml")))
			return filepath.Join(dir, "config", "c.toml")
		}, func(t *testing.T, dir, level string) {
			write(t, filepath.Join(dir, "files", level+".toml"), toml(level))
			must(t, os.Symlink(filepath.Join("..", "files", level+".toml"), filepath.Join(dir, "links", level)))
			must(t, os.Symlink(filepath.Join("..", "links", level), filepath.Join(dir, "config", "next")))
			must(t, os.Rename(filepath.Join(dir, "config", "next"), filepath.Join(dir, "config", "c.toml")))
		}},
		{"swap ..data", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "..info", "c.toml"), toml("info"))
			must(t, os.Symlink("..info", filepath.Join(dir, "..data")))
			must(t, os.Symlink(filepath.Join("..data", "c.toml"), filepath.Join(dir, "c.toml")))
			return filepath.Join(dir, "c.toml")
		}, func(t *testing.T, dir, level string) {
			write(t, filepath.Join(dir, ".."+level, "c.toml"), toml(level))
			must(t, os.Symlink(".."+level, filepath.Join(dir, "..data_tmp")))
			old, err := os.Readlink(filepath.Join(dir, "..data"))
			must(t, err)
			must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
			must(t, os.RemoveAll(filepath.Join(dir, old)))
		}},
		{"edit behind a link", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "dotfiles", "mcp.toml"), toml("info"))
			must(t, os.Mkdir(filepath.Join(dir, "config"), 0o700))
			must(t, os.Symlink(filepath.Join(dir, "dotfiles", "mcp.toml"), filepath.Join(dir, "config", "c.toml")))
			return filepath.Join(dir, "config", "c.toml")
		}, func(t *testing.T, dir, level string) {
			write(t, filepath.Join(dir, "dotfiles", "new"), toml(level))
			must(t, os.Rename(filepath.Join(dir, "dotfiles", "new"), filepath.Join(dir, "dotfiles", "mcp.toml")))
		}},
		{"turn a linked folder", func(t *testing.T, dir string) string {
			write(t, filepath.Join(dir, "v-info", "c.toml"), toml("info"))
			must(t, os.Symlink("v-info", filepath.Join(dir, "current")))
			return filepath.Join(dir, "current", "c.toml")
		}, func(t *testing.T, dir, level string) {
			write(t, filepath.Join(dir, "v-"+level, "c.toml"), toml(level))
			must(t, os.Symlink("v-"+level, filepath.Join(dir, "next")))
			must(t, os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "current")))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			calls := watch(t, load(t, tt.setup(t, dir)))
			for _, level := range []string{"warn", "error"} {
				tt.change(t, dir, level)
				until(t, calls, level)
			}
		})
	}
}

func plainFile(t *testing.T, dir string) string {
	write(t, filepath.Join(dir, "c.toml"), toml("info"))
	return filepath.Join(dir, "c.toml")
}

// TestWatchFromBefore changes the file between Load and Watch.
func TestWatchFromBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.toml")
	write(t, path, toml("info"))
	c := load(t, path)
	write(t, path, toml("warn"))
	until(t, watch(t, c), "warn")
}

// TestWatchForAFileToCome starts without the file, its directory and the one above, and so with
// the defaults.
func TestWatchForAFileToCome(t *testing.T) {
	c := config.Default()
	c.Path = filepath.Join(t.TempDir(), ".config", "mcpschedd", "c.toml")
	calls := watch(t, c)
	for _, level := range []string{"warn", "error"} {
		write(t, c.Path, toml(level))
		until(t, calls, level)
	}
}

// TestWatchOfEnvFiles changes a file of two upstreams, in a folder to come. The file of a disabled upstream
// and one with an unset variable are not watched.
func TestWatchOfEnvFiles(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "config", "c.toml"), filepath.Join(dir, "team", "env", "a.env")
	write(t, path, `upstreams.a = { command = "x", env_file = "../${NAME}/env/a.env" }
upstreams.b = { command = "x", env_file = "../team/env/a.env" }
upstreams.off = { command = "x", env_file = "off.env", enabled = false }
upstreams.unset = { command = "x", env_file = "${NONE}.env" }
upstreams.none = { command = "x" }
`)
	c := load(t, path)
	c.Digest = [32]byte{} // so that the first reading is reported
	files := func() []string { return c.EnvFiles(lookup(map[string]string{"NAME": "team"})) }
	if diff := cmp.Diff([]string{file, file}, files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls, ended := make(chan error, 100), make(chan error)
	go func() {
		ended <- config.Watch(ctx, c, files, nil, func() { calls <- nil }, func(applied *config.Config, err error) {
			if applied != nil && len(applied.Upstreams) == 1 { // without the file, which is back at once
				write(t, file, "A=3")
			}
			calls <- err
		})
	}()
	for i, step := range []struct {
		change   func()
		mistakes bool
	}{
		{func() {}, false}, // from now on the file is known to be missing
		{func() { write(t, file, "A=1") }, false},
		{func() {
			write(t, file+".new", "A=2")
			must(t, os.Rename(file+".new", file))
		}, false},
		{func() {
			must(t, os.RemoveAll(filepath.Dir(file)))
			write(t, file, "A=3")
		}, false},
		{func() {
			must(t, os.RemoveAll(filepath.Dir(file)))
			write(t, path, "upstreams.none = { command = \"y\" }\n")
		}, false},
		{func() {}, false},
		{func() {
			write(t, file, "") // its writer may not be done
			write(t, path, "x")
		}, true},
	} {
		step.change()
		select {
		case err := <-calls:
			if (err != nil) != step.mistakes {
				t.Fatalf("step %d: got %v", i, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("step %d: got nothing for 20 s", i)
		}
	}
	cancel()
	if err := <-ended; err != nil || len(calls) > 0 {
		t.Errorf("got %v and %d more calls, want none", err, len(calls))
	}
}

// follower runs Watch in a bubble, on a real file but with events of the test. Each step changes
// the file, sends one event, and lets time pass.
type follower struct {
	path   string
	events chan fsnotify.Event
	errs   chan error
	calls  []report
	ended  chan error

	unwatched error // why the watches cannot be renewed
}

func follow(t *testing.T, ctx context.Context) *follower {
	f := &follower{path: filepath.Join(t.TempDir(), "c.toml"), events: make(chan fsnotify.Event), errs: make(chan error), ended: make(chan error, 1)}
	write(t, f.path, toml("info"))
	c := load(t, f.path)
	go func() {
		f.ended <- config.Follow(ctx, c, f.events, f.errs, func() error { return f.unwatched }, func(c *config.Config, err error) {
			if err != nil {
				f.calls = append(f.calls, report{err: err})
				return
			}
			f.calls = append(f.calls, report{level: c.Log.Level})
		})
	}()
	synctest.Wait()
	return f
}

func (f *follower) touch() {
	f.events <- fsnotify.Event{Name: f.path, Op: fsnotify.Write}
	synctest.Wait()
}

// settle lets Watch run and returns its reports since the last call of settle.
func (f *follower) settle() []report {
	time.Sleep(time.Minute)
	synctest.Wait()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *follower) write(t *testing.T, text string) []report {
	t.Helper()
	write(t, f.path, text)
	f.touch()
	return f.settle()
}

func levels(calls []report) []string {
	got := []string{}
	for _, c := range calls {
		if c.err != nil {
			got = append(got, "error")
		} else {
			got = append(got, c.level)
		}
	}
	return got
}

func TestWatchReportsEachContentOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := follow(t, ctx)
		bad := "[log]\nlevel = 1\n"
		for i, step := range []struct {
			text string
			want []string
		}{
			{toml("info"), []string{}}, // the content that was loaded
			{toml("warn"), []string{"warn"}},
			{toml("warn"), []string{}},
			{bad, []string{"error"}},
			{bad, []string{}},
			{"[tools.\"a/\"]\n", []string{"error"}}, // rejected when it is compiled
			{"[tools.\"a/\"]\n", []string{}},
			{"[log\n", []string{"error"}},
			{toml("warn"), []string{"warn"}}, // corrected: no error
			{bad, []string{"error"}},
			{"", []string{"error"}}, // not the defaults
			{" \n", []string{"error"}},
			{"#\n", []string{"info"}},
		} {
			if diff := cmp.Diff(step.want, levels(f.write(t, step.text))); diff != "" {
				t.Errorf("step %d, %q (-want +got):\n%s", i, step.text, diff)
			}
		}
		cancel()
		if err := <-f.ended; err != nil {
			t.Errorf("got %v, want nil once its context has ended", err)
		}
	})
}

func TestWatchWithoutTheFile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := follow(t, ctx)
		must(t, os.Remove(f.path))
		f.touch()
		if got := f.settle(); len(got) != 1 || !errors.Is(got[0].err, fs.ErrNotExist) {
			t.Errorf("removed: got %v, want fs.ErrNotExist", got)
		}
		f.touch()
		if got := f.settle(); len(got) != 0 {
			t.Errorf("still removed: got %v, want nothing", got)
		}
		if diff := cmp.Diff([]string{"info"}, levels(f.write(t, toml("info")))); diff != "" {
			t.Errorf("back again (-want +got):\n%s", diff)
		}
	})
}

func TestWatchWaitsForQuiet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := follow(t, ctx)
		// Of five steps that are 90 ms apart, only the last one is read.
		for _, text := range []string{"", "[log]", "[log]\nlevel", "[log]\nlevel = 1", toml("error")} {
			write(t, f.path, text)
			f.touch()
			time.Sleep(90 * time.Millisecond)
		}
		if diff := cmp.Diff([]string{"error"}, levels(f.settle())); diff != "" {
			t.Errorf("steps (-want +got):\n%s", diff)
		}
		// Watch does not wait for the end of endless changes.
		write(t, f.path, toml("warn"))
		for range 12 {
			f.touch()
			time.Sleep(90 * time.Millisecond)
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"warn"}, levels(f.calls)); diff != "" {
			t.Errorf("with changes for 1.08 s (-want +got):\n%s", diff)
		}
	})
}

func TestWatchOfLostEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f := follow(t, ctx)
		write(t, f.path, toml("warn"))
		f.errs <- fsnotify.ErrEventOverflow
		if diff := cmp.Diff([]string{"warn"}, levels(f.settle())); diff != "" {
			t.Errorf("lost events (-want +got):\n%s", diff)
		}
	})
}

// TestWatchEndsWithItsWatches: a readable file whose changes would not be noticed is an error.
func TestWatchEndsWithItsWatches(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := follow(t, t.Context())
		f.settle()
		f.unwatched = errors.New("no space left on device")
		if diff := cmp.Diff([]string{"warn"}, levels(f.write(t, toml("warn")))); diff != "" {
			t.Errorf("the last change (-want +got):\n%s", diff)
		}
		select {
		case err := <-f.ended:
			if !errors.Is(err, f.unwatched) {
				t.Errorf("got %v, want %v", err, f.unwatched)
			}
		default:
			t.Fatal("it still waits for events")
		}
	})
}

func TestWatchEndsWithItsEvents(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := follow(t, t.Context())
		close(f.events)
		if err := <-f.ended; err == nil {
			t.Error("got nil, want an error when the system ends the watch")
		}
	})
}
