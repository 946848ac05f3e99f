//go:build unix

package daemon_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpschedd/internal/daemon"
)

// receiveReports starts a daemon in this process that receives reports.
func receiveReports(t *testing.T, p daemon.Place) <-chan *daemon.Report {
	t.Helper()
	heard := make(chan *daemon.Report, 1)
	l, err := daemon.Listen(p, daemon.ListenOptions{Log: slog.New(slog.DiscardHandler), OnReport: func(r *daemon.Report) { heard <- r }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx, func() {}) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return heard
}

// at returns the where function of a hook.
func at(p daemon.Place) func() (stateDir, config string, err error) {
	return func() (string, string, error) { return p.StateDir(), "/c.toml", nil }
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A report has reached the daemon when the hook returns. If the hook's input cannot be read, it
// reports that.
func TestHook(t *testing.T) {
	t.Setenv("CLAUDE_CODE_SESSION_ID", "s")
	t.Setenv("CLAUDE_PID", "42")
	project, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(project, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CLAUDE_PROJECT_DIR", link)
	p := place(t)
	heard := receiveReports(t, p)
	long := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		in   io.Reader
		want daemon.Report
	}{
		"an edit": {
			strings.NewReader(`{"session_id":"t","cwd":"/else","hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"/a","new_string":"` + long + `"},"tool_use_id":"u"}`),
			daemon.Report{Event: "PreToolUse", Session: "t", Tool: "Edit", Use: "u"},
		},
		"a command": {
			strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make","run_in_background":true},"tool_use_id":"u"}`),
			daemon.Report{Event: "PreToolUse", Tool: "Bash", Use: "u", Command: "make", Background: true},
		},
		"a command of a megabyte": {
			strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"` + long + `"},"tool_use_id":"u"}`),
			daemon.Report{Event: "PreToolUse", Tool: "Bash", Use: "u"},
		},
		"its end, and it goes on": {
			strings.NewReader(`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"make"},"tool_response":{"backgroundTaskId":"b"},"tool_use_id":"u"}`),
			daemon.Report{Event: "PostToolUse", Tool: "Bash", Use: "u", Command: "make", Background: true},
		},
		"an input that is none": {
			strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":7,"tool_response":[],"tool_use_id":"u"}`),
			daemon.Report{Event: "PreToolUse", Tool: "Bash", Use: "u", Background: true},
		},
		"without a number": {
			strings.NewReader(`{"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"a":1}}`),
			daemon.Report{Event: "PreToolUse", Tool: "Edit", Use: "a60673b4136ea4df"},
		},
		"a prompt": {
			strings.NewReader(`{"hook_event_name":"UserPromptSubmit","prompt":"mend it"}`),
			daemon.Report{Event: "UserPromptSubmit", Prompt: "mend it"},
		},
		"the end of a turn": {
			strings.NewReader(`{"hook_event_name":"Stop","background_tasks":[{"id":"b"}]}`),
			daemon.Report{Event: "Stop", Tasks: new(1)},
		},
		"an event that is not known, with control characters": {
			strings.NewReader(`{"hook_event_name":"Od\u0000d\u001b[2J","tool_name":"\u0007\n"}`),
			daemon.Report{Event: "Od\x00d\x1b[2J", Tool: "\x07\n", Use: "10b0a0c8cf10027e", Background: true},
		},
		"nothing":      {strings.NewReader(""), daemon.Report{Unread: "hook: unexpected end of JSON input"}},
		"no JSON":      {strings.NewReader("GET / HTTP/1.1"), daemon.Report{Unread: "hook: invalid character 'G' looking for beginning of value"}},
		"no event":     {strings.NewReader("{}"), daemon.Report{Unread: "hook: no hook_event_name"}},
		"another kind": {strings.NewReader(`{"hook_event_name":7}`), daemon.Report{Unread: "hook: json: cannot unmarshal number into Go struct field hookInput.hook_event_name of type string"}},
		"100 MB":       {io.LimitReader(zeros{}, 100<<20), daemon.Report{Unread: "hook: more than 16777216 bytes"}},
		"half of it":   {io.MultiReader(strings.NewReader("{"), broken{}), daemon.Report{Unread: "hook: broken"}},
	} {
		if c.want.Session == "" {
			c.want.Session = "s"
		}
		c.want.Parent, c.want.Folder = 42, project
		daemon.Hook(c.in, at(p))
		select {
		case got := <-heard:
			if diff := cmp.Diff(&c.want, got, cmpopts.IgnoreFields(daemon.Report{}, "Sent")); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		default:
			t.Errorf("%s: got no report", name)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// Without a daemon that accepts reports, or without a place, the hook reads its input and returns.
func TestHookWithoutDaemon(t *testing.T) {
	defer func(before time.Duration) { daemon.HookTimeout = before }(daemon.HookTimeout)
	daemon.HookTimeout = 10 * time.Millisecond
	p := place(t)
	old := place(t)
	listen(t, old)
	mute := place(t)
	l, err := net.Listen("unix", mute.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, where := range map[string]func() (stateDir, config string, err error){
		"no daemon":                 at(p),
		"one of an older version":   at(old),
		"one that does not answer":  at(mute),
		"a configuration is broken": func() (string, string, error) { return "", "", errors.New("no") },
		"it panics":                 func() (string, string, error) { panic("no") },
	} {
		in := strings.NewReader(`{"hook_event_name":"Stop"} and more`)
		daemon.Hook(in, where)
		if in.Len() > 0 {
			t.Errorf("%s: %d bytes were not read", name, in.Len())
		}
	}
}

// A hook creates no files, not even a log.
func TestHookMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	daemon.Hook(strings.NewReader(`{"hook_event_name":"Stop"}`), func() (string, string, error) { return dir, "/c.toml", nil })
	if _, err := os.Stat(dir); err == nil {
		t.Error("it has created the state folder")
	}
}
