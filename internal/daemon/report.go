package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"mcpschedd/internal/paths"
)

// Report is an event reported by a client's hook: a use of one of the client's own tools, before
// or after it, or the start or end of a turn or session. The terms are Claude Code's.
type Report struct {
	Event   string `json:"event"`
	Session string `json:"session,omitempty"` // the client's session id
	Parent  int    `json:"parent,omitempty"`  // PID of the client; 0 if not known
	Folder  string `json:"folder,omitempty"`  // project folder of the client, without symbolic links as the daemon has it

	Tool       string `json:"tool,omitempty"`
	Use        string `json:"use,omitempty"`        // id of the use, the same before and after it
	Command    string `json:"command,omitempty"`    // shell command; empty if not known
	Background bool   `json:"background,omitempty"` // the command may still run after the use
	Tasks      *int   `json:"tasks,omitempty"`      // number of the client's background tasks; nil if not reported

	Prompt string `json:"prompt,omitempty"`
	Why    string `json:"why,omitempty"` // why a session started or ended

	Sent   int64  `json:"sent"`             // when the hook began, before it read its input; milliseconds since 1970
	Unread string `json:"unread,omitempty"` // error of reading the event: only Session, Parent and Folder are known then, from the environment
}

// HookTimeout is how long Hook waits for the daemon to acknowledge a report. A report that is
// older when the daemon handles it may have arrived after the change that it announces. Tests raise
// it, as they may run on a busy machine.
var HookTimeout = 500 * time.Millisecond

// hookDeadline is when Hook exits the process even if something hangs, so that the client's edit
// is not delayed further. Tests raise it.
var hookDeadline = 2 * time.Second

// Hook sends the report that a client writes to the hook's stdin to the daemon, if one runs, and
// waits for the acknowledgement. It hides all failures from the client, as its edit must proceed.
// where returns the state folder and the path of the configuration. Hook creates no files, except
// to log a failure.
func Hook(in io.Reader, where func() (stateDir, config string, err error)) {
	defer func() { _ = recover() }() // a panic exits with status 2, which forbids the edit
	late := time.AfterFunc(hookDeadline, func() { os.Exit(0) })
	defer late.Stop()
	r := readReport(in)
	if stateDir, config, err := where(); err == nil {
		if err := placeOf(stateDir, config).tell(Hello{Kind: kindHook, Report: r}, HookTimeout); err != nil {
			log := slog.New(slog.NewTextHandler(OpenLog(stateDir, ProgramLog), nil))
			log.Warn("the client's report was not delivered", "hook", os.Getpid(), "event", r.Event, "err", err)
		}
	}
	_, _ = io.Copy(io.Discard, in) // the client may fail if its output is not read
}

// Bounds of a hook's input, in bytes.
const (
	maxInput   = 16 << 20 // the input contains the content of a written file
	maxCommand = 32 << 10
	maxPrompt  = 4 << 10
	maxName    = 256
)

// hookInput is the JSON that Claude Code writes to a hook's stdin.
type hookInput struct {
	Event      string          `json:"hook_event_name"`
	Session    string          `json:"session_id"`
	Dir        string          `json:"cwd"`
	Tool       string          `json:"tool_name"`
	Input      json.RawMessage `json:"tool_input"`
	Use        string          `json:"tool_use_id"`
	Response   json.RawMessage `json:"tool_response"`
	Prompt     string          `json:"prompt"`
	Source     string          `json:"source"`
	Reason     string          `json:"reason"`
	Background *[]any          `json:"background_tasks"`
}

// readReport reads a hook's input and environment. Input that cannot be read yields a report
// with Unread set, since something may have changed all the same.
func readReport(stdin io.Reader) *Report {
	r := &Report{Session: clip(os.Getenv("CLAUDE_CODE_SESSION_ID"), maxName), Folder: paths.WithoutLinks(os.Getenv("CLAUDE_PROJECT_DIR")), Sent: time.Now().UnixMilli()}
	r.Parent, _ = strconv.Atoi(os.Getenv("CLAUDE_PID")) // 0 if not set
	text, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
	var in hookInput
	switch {
	case err == nil && len(text) > maxInput:
		err = fmt.Errorf("more than %d bytes", maxInput)
	case err == nil:
		err = json.Unmarshal(text, &in)
	}
	if err == nil && in.Event == "" {
		err = errors.New("no hook_event_name")
	}
	if err != nil {
		r.Unread = clip("hook: "+err.Error(), maxName)
		return r
	}
	r.Event, r.Tool, r.Prompt = clip(in.Event, maxName), clip(in.Tool, maxName), clip(in.Prompt, maxPrompt)
	r.Session, r.Folder = cmp.Or(clip(in.Session, maxName), r.Session), cmp.Or(r.Folder, paths.WithoutLinks(in.Dir))
	r.Why = clip(cmp.Or(in.Source, in.Reason), maxName)
	if in.Background != nil {
		r.Tasks = new(len(*in.Background))
	}
	if r.Tool != "" {
		r.setUse(&in)
	}
	return r
}

// setUse sets the fields about the use of a tool.
func (r *Report) setUse(in *hookInput) {
	if r.Use = clip(in.Use, maxName); r.Use == "" {
		r.Use = hashOf(in.Tool, string(in.Input)) // equal uses at the same time are only counted
	}
	var input struct {
		Command    string `json:"command"`
		Background bool   `json:"run_in_background"`
	}
	if err := json.Unmarshal(in.Input, &input); err != nil {
		r.Background = true // not known, so assume the worst
	}
	if len(input.Command) <= maxCommand {
		r.Command = input.Command
	}
	var response struct {
		Task string `json:"backgroundTaskId"`
	}
	_ = json.Unmarshal(in.Response, &response) // a response that is not an object has no task
	r.Background = r.Background || input.Background || response.Task != ""
}

// clip returns the beginning of a text, as later versions or other clients may send longer ones.
func clip(s string, most int) string { return s[:min(len(s), most)] }
