package tune

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
)

// ClaudeLogs reads calls from the session logs that Claude Code keeps below
// ~/.claude/projects. All fields are required.
type ClaudeLogs struct {
	Upstreams  []string                  // configured upstreams, of which calls are wanted
	UpstreamOf func(tool string) string  // returns the upstream of a tool that the proxy lists without a prefix; "" if not known
	Each       func(calls []replay.Call) // called with the calls of each file, in order
	Bad        func(record.Problem)      // called for what cannot be read
}

// Bounds of a log.
const (
	maxClaudeLine = 64 << 20  // bytes; reading of a file stops at a longer line
	maxClaudeText = 256 << 10 // bytes of an answer's text that are kept
	maxSeenCalls  = 1 << 17   // ids of calls remembered, as a resumed session repeats them
)

// Read reads every .jsonl file below a folder in the order of their names. Calls to other servers
// are left out. The folder may be a link; links in it are not followed. Read fails only if the folder
// cannot be read or ctx is done.
//
// The format of these files is undocumented and has changed before, so Read decodes only the
// members of a line that it uses; if one of those has another type, the line is left out. Known
// facts: each line is one message; a response of the model is spread over several lines with the
// same message id, one block each; a block may be repeated; a resumed session begins with a copy
// of the previous one, with the same tool_use ids; messages of subagents are in separate files.
func (l ClaudeLogs) Read(ctx context.Context, dir string) error {
	if s, err := os.Stat(dir); err != nil || !s.IsDir() {
		return cmp.Or(err, fmt.Errorf("%s: want a folder", dir))
	}
	seen, _ := lru.New[string, bool](maxSeenCalls) // fails only for a size below 1
	root := dir + string(filepath.Separator)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path == root:
			return err
		case err != nil:
			l.Bad(record.Problem{File: path, Text: record.Cause(err)})
		case filepath.Ext(path) == ".jsonl" && d.Type().IsRegular():
			f := claudeFile{ClaudeLogs: l, path: path, seen: seen}
			f.read(ctx)
		}
		return ctx.Err()
	})
}

// claudeFile extracts the calls of one file.
type claudeFile struct {
	ClaudeLogs
	path  string
	seen  *lru.Cache[string, bool] // tool_use ids of calls
	open  map[string]*replay.Call  // tool_use id → call without an answer yet
	turns map[string]int           // session and message id → number of the turn
	done  []replay.Call
}

// read passes the answered calls of the file to Each.
func (f *claudeFile) read(ctx context.Context) {
	in, err := os.Open(f.path)
	if err != nil {
		f.Bad(record.Problem{File: f.path, Text: record.Cause(err)})
		return
	}
	defer in.Close()
	f.open, f.turns = make(map[string]*replay.Call), make(map[string]int)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxClaudeLine)
	number := 1
	for ; lines.Scan() && ctx.Err() == nil; number++ {
		if text := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))); len(text) > 0 {
			if err := f.line(text); err != nil {
				f.Bad(record.Problem{File: f.path, Line: number, Text: err.Error()})
			}
		}
	}
	if err := lines.Err(); err != nil {
		f.Bad(record.Problem{File: f.path, Line: number, Text: record.Cause(err) + ": the rest of the file is not read"})
	}
	slices.SortStableFunc(f.done, func(a, b replay.Call) int {
		return cmp.Or(strings.Compare(a.Session, b.Session), a.Batch-b.Batch, a.Seq-b.Seq)
	})
	f.Each(f.done)
}

// claudeMessage is a line of a log; only the members in use are decoded.
type claudeMessage struct {
	Session   string    `json:"sessionId"`
	Agent     string    `json:"agentId"`
	Timestamp time.Time `json:"timestamp"`
	Message   struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// claudeBlock is one block of a message.
type claudeBlock struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Use     string          `json:"tool_use_id"`
	Content json.RawMessage `json:"content"`
	Failed  bool            `json:"is_error"`
	Text    string          `json:"text"`
}

// line handles one line. It does not decode lines without a call or an answer, which are most.
func (f *claudeFile) line(line []byte) error {
	ofTools := bytes.Contains(line, []byte(`"tool_use"`)) || bytes.Contains(line, []byte(`"tool_result"`))
	if !ofTools && json.Valid(line) {
		return nil
	}
	var m claudeMessage
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	var blocks []claudeBlock
	if !bytes.HasPrefix(m.Message.Content, []byte("[")) {
		return nil
	}
	if err := json.Unmarshal(m.Message.Content, &blocks); err != nil {
		return err
	}
	for _, b := range blocks {
		switch b.Type {
		case "tool_use":
			f.call(&m, &b)
		case "tool_result":
			f.answer(&m, &b)
		}
	}
	return nil
}

// call adds a call. A subagent has a session of its own, since its calls follow from its own
// answers only.
func (f *claudeFile) call(m *claudeMessage, b *claudeBlock) {
	tool := f.resolve(b.Name)
	if known, _ := f.seen.ContainsOrAdd(b.ID, true); tool == "" || known || b.ID == "" {
		return
	}
	session := m.Session
	if m.Agent != "" {
		session += "/" + m.Agent
	}
	turn := session + "\x00" + cmp.Or(m.Message.ID, b.ID)
	if f.turns[turn] == 0 {
		f.turns[turn] = len(f.turns) + 1
	}
	arguments := json.RawMessage("{}")
	if bytes.HasPrefix(b.Input, []byte("{")) {
		arguments = b.Input
	}
	f.open[b.ID] = &replay.Call{
		Session: session, Seq: len(f.open) + len(f.done), Batch: f.turns[turn],
		Start: m.at(), Tool: tool, Arguments: arguments,
	}
}

// at returns the time of a message in milliseconds since 1970, or nil if it has none.
func (m *claudeMessage) at() *int64 {
	if m.Timestamp.IsZero() {
		return nil
	}
	return new(m.Timestamp.UnixMilli())
}

// answer completes a call with its answer.
func (f *claudeFile) answer(m *claudeMessage, b *claudeBlock) {
	c := f.open[b.Use]
	if c == nil {
		return
	}
	delete(f.open, b.Use)
	c.Text, c.Failed = b.text(), b.Failed
	c.Bytes = len(c.Text)
	if len(c.Text) > maxClaudeText {
		c.Text = strings.ToValidUTF8(c.Text[:maxClaudeText], "")
	}
	if at := m.at(); at != nil && c.Start != nil && *at >= *c.Start {
		c.End = at
	}
	f.done = append(f.done, *c)
}

// text returns the text of an answer, "" for one that the client has moved to a file.
func (b *claudeBlock) text() string {
	var text string
	if json.Unmarshal(b.Content, &text) != nil {
		var blocks []claudeBlock
		_ = json.Unmarshal(b.Content, &blocks) // an answer that cannot be read has no text
		var texts []string
		for _, p := range blocks {
			if p.Type == "text" {
				texts = append(texts, p.Text)
			}
		}
		text = strings.Join(texts, "\n")
	}
	moved := strings.HasPrefix(text, "<persisted-output>") || strings.Contains(text, "exceeds maximum allowed tokens")
	if moved {
		return ""
	}
	return text
}

// proxyName is the default name of the proxy in a client's configuration.
const proxyName = "mcpschedd"

// resolve returns the NAME/TOOL that a tool name in a client's log stands for, whether the
// client used the server directly (mcp__github__get_issue) or through the proxy
// (mcp__mcpschedd__github__get_issue, also if the proxy has another name); "" for all other tools.
// Names of upstreams contain no "__".
func (l *ClaudeLogs) resolve(name string) string {
	rest, ok := strings.CutPrefix(name, "mcp__")
	server, tool, _ := strings.Cut(rest, "__")
	behind, inner, _ := strings.Cut(tool, "__")
	switch {
	case !ok || tool == "":
		return ""
	case slices.Contains(l.Upstreams, server):
		return server + "/" + tool
	case inner != "" && slices.Contains(l.Upstreams, behind):
		return behind + "/" + inner
	case server == proxyName && l.UpstreamOf(tool) != "":
		return l.UpstreamOf(tool) + "/" + tool
	}
	return ""
}
