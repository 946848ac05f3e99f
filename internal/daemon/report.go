package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"time"
)

// Report is what a client's hook says: what the client is about to do without mcpschedd, or
// has done, and where a turn of its model begins and ends. Its words are Claude Code's.
type Report struct {
	Event   string `json:"event"`
	Session string `json:"session,omitempty"` // the client's own name for its session
	Parent  int    `json:"parent,omitempty"`  // the client's process; 0: not known
	Folder  string `json:"folder,omitempty"`  // in which the client works

	Tool       string `json:"tool,omitempty"`
	Use        string `json:"use,omitempty"`        // the same before and after one use of the tool
	Command    string `json:"command,omitempty"`    // of a shell; "": not known
	Background bool   `json:"background,omitempty"` // it may go on when its use is over
	Tasks      *int   `json:"tasks,omitempty"`      // that the client runs in the background; nil: it does not say

	Prompt string `json:"prompt,omitempty"`
	Why    string `json:"why,omitempty"` // a session has begun or ended

	Sent   int64  `json:"sent"`             // milliseconds since 1970
	Unread string `json:"unread,omitempty"` // why no more of the event is known than its session
}

// Bounds of what a client says, in bytes.
const (
	maxInput   = 16 << 20 // a file that is written comes with it
	maxCommand = 32 << 10
	maxPrompt  = 4 << 10
	maxName    = 256
)

// hookInput is what Claude Code gives a hook on its stdin.
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

// ReadReport reads what a client gives its hook. getenv is the hook's environment. What cannot
// be read is a report too: that something may have changed.
func ReadReport(stdin io.Reader, getenv func(string) string) *Report {
	r := &Report{Session: name(getenv("CLAUDE_CODE_SESSION_ID")), Folder: getenv("CLAUDE_PROJECT_DIR"), Sent: time.Now().UnixMilli()}
	r.Parent, _ = strconv.Atoi(getenv("CLAUDE_PID")) // else it is not known
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
	r.fill(&in)
	return r
}

func (r *Report) fill(in *hookInput) {
	r.Event, r.Tool, r.Prompt = name(in.Event), name(in.Tool), clip(in.Prompt, maxPrompt)
	if in.Session != "" {
		r.Session = name(in.Session)
	}
	if r.Folder == "" {
		r.Folder = in.Dir
	}
	if real, err := filepath.EvalSymlinks(r.Folder); err == nil {
		r.Folder = real
	}
	if r.Why = name(in.Source); r.Why == "" {
		r.Why = name(in.Reason)
	}
	if in.Background != nil {
		r.Tasks = new(len(*in.Background))
	}
	if r.Tool != "" {
		r.setUse(in)
	}
}

// use says which use of a tool is meant, and what it may do.
func (r *Report) setUse(in *hookInput) {
	if r.Use = in.Use; r.Use == "" {
		r.Use = in.Tool + string(in.Input) // two at once that do the same are told apart by their number alone
	}
	r.Use = name(r.Use)
	var input struct {
		Command    string `json:"command"`
		Background bool   `json:"run_in_background"`
	}
	if err := json.Unmarshal(in.Input, &input); err != nil {
		r.Background = true // in doubt
	}
	if len(input.Command) <= maxCommand {
		r.Command = input.Command
	}
	var response struct {
		Task string `json:"backgroundTaskId"`
	}
	_ = json.Unmarshal(in.Response, &response) // what is no object names no task
	r.Background = r.Background || input.Background || response.Task != ""
}

// name is a name as it is sent: one that is too long to be one by its hash.
func name(s string) string {
	if len(s) <= maxName {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func clip(s string, most int) string { return s[:min(len(s), most)] }
