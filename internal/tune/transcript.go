package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/replay"
)

// claudeMessage is a line of a log; only the members in use are decoded.
type claudeMessage struct {
	Type      string          `json:"type"`
	UUID      string          `json:"uuid"`
	Session   string          `json:"sessionId"`
	Agent     string          `json:"agentId"`
	Side      bool            `json:"isSidechain"`
	Timestamp string          `json:"timestamp"`
	Extra     json.RawMessage `json:"toolUseResult"`
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

// blocksOf returns the blocks of a list, and the total size of those that are not text. A value
// that is not a list has no blocks. A block that cannot be read, perhaps one of a later version,
// is left out and is the error.
func blocksOf(list json.RawMessage) (all []claudeBlock, rest int, bad error) {
	if len(list) == 0 || list[0] != '[' {
		return nil, 0, nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(list, &parts); err != nil {
		return nil, 0, err
	}
	for _, part := range parts {
		var b claudeBlock
		if err := json.Unmarshal(part, &b); err != nil {
			bad = err
		} else {
			all = append(all, b)
		}
		if b.Type != "text" {
			rest += len(part)
		}
	}
	return all, rest, bad
}

// text returns the text of an answer and its total size in bytes, other content included. For an
// answer that the client has moved to a file, it returns no text and the size that the client
// states.
func (b *claudeBlock) text() (text string, size int) {
	var whole string
	if json.Unmarshal(b.Content, &whole) != nil {
		blocks, rest, _ := blocksOf(b.Content) // on error the answer has no text
		var texts []string
		for _, p := range blocks {
			if p.Type == "text" {
				texts = append(texts, p.Text)
			}
		}
		whole, size = strings.Join(texts, "\n"), rest
	}
	if full, kept := persistedSize(whole); kept {
		return "", size + full
	}
	size += len(whole)
	if len(whole) > maxClaudeText {
		whole = strings.ToValidUTF8(whole[:maxClaudeText], "")
	}
	return strings.Clone(whole), size
}

// persistedNote matches the note that replaces an answer that is too long, of the client's own
// tools and of MCP tools.
var persistedNote = regexp.MustCompile(`^(?:<persisted-output>\s*Output too large \(([0-9.]+) ?([KMG]?B)\)|(?:Error: )?result \(([0-9,]+)() characters\) exceeds maximum allowed tokens)`)

// persistedSize returns the size in bytes that such a note states.
func persistedSize(text string) (size int, kept bool) {
	m := persistedNote.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(strings.ReplaceAll(m[1]+m[3], ",", ""), 64)
	unit := map[string]float64{"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[m[2]]
	return int(min(n*max(unit, 1), 1<<40)), err == nil
}

// transcript extracts the calls of one file.
type transcript struct {
	r     *claudeReader
	path  string
	open  map[string]*replay.Call // tool_use id → call without an answer yet
	done  []*replay.Call
	held  int            // bytes of the texts and arguments of done
	turns map[string]int // session and message id → number of the turn
	order int
}

func newTranscript(r *claudeReader, path string) *transcript {
	return &transcript{r: r, path: path, open: make(map[string]*replay.Call), turns: make(map[string]int)}
}

// line handles one line. It does not decode lines without a call or an awaited answer, which
// are most.
func (t *transcript) line(number int, line []byte) {
	if line[0] != '{' || line[len(line)-1] != '}' {
		t.r.Bad(t.path, number, "want one JSON object: the line is truncated, or the file is not a session log")
		return
	}
	if !bytes.Contains(line, []byte(`"tool_use"`)) && (len(t.open) == 0 || !bytes.Contains(line, []byte(`"tool_result"`))) {
		return
	}
	var m claudeMessage
	if err := json.Unmarshal(line, &m); err != nil {
		t.r.Bad(t.path, number, "want a message of a session: "+err.Error())
		return
	}
	blocks, _, err := blocksOf(m.Message.Content)
	if err != nil {
		t.r.Bad(t.path, number, "message.content: "+err.Error())
	}
	at := claudeTime(m.Timestamp)
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.Type == "tool_use" && m.Type == "assistant":
			t.call(&m, b, at)
		case b.Type == "tool_result" && m.Type == "user":
			t.answer(&m, b, at)
		}
	}
}

// session returns the session of a message. A subagent has a session of its own, since its calls
// follow from its own answers only.
func (t *transcript) session(m *claudeMessage) string {
	name := cmp.Or(m.Session, t.path)
	if m.Side || m.Agent != "" {
		name += "/" + m.Agent
	}
	return name
}

// claudeTime parses a time into ms since 1970, or returns nil if it is invalid or implausible.
func claudeTime(text string) *int64 {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 2000 || at.Year() > 2199 {
		return nil
	}
	ms := at.UnixMilli()
	return &ms
}

// call adds a call, or counts it as left out.
func (t *transcript) call(m *claudeMessage, b *claudeBlock, at *int64) {
	if b.ID == "" || b.Name == "" {
		return
	}
	if known, _ := t.r.seen.ContainsOrAdd(b.ID, struct{}{}); known {
		return
	}
	tool, why := t.r.resolve(b.Name)
	if why != "" {
		t.r.leaveOut(why, 1)
		return
	}
	arguments := bytes.TrimSpace(b.Input)
	if len(arguments) == 0 || arguments[0] != '{' {
		arguments = []byte("{}")
	}
	session := t.session(m)
	turn := session + "\x00" + cmp.Or(m.Message.ID, m.UUID, b.ID)
	if t.turns[turn] == 0 {
		t.turns[turn] = len(t.turns) + 1
	}
	t.order++
	t.open[b.ID] = &replay.Call{
		Dataset: "claude", Session: session, Seq: t.order, Batch: t.turns[turn],
		Start: at, Tool: tool, Arguments: bytes.Clone(arguments),
	}
}

// answer completes a call with its answer.
func (t *transcript) answer(m *claudeMessage, b *claudeBlock, at *int64) {
	c := t.open[b.Use]
	if c == nil {
		return
	}
	delete(t.open, b.Use)
	c.Text, c.Bytes = b.text()
	if b.Failed && notSent(c.Text, m.Extra) {
		t.r.leaveOut("that the client did not send: denied by the user or a rule, or with invalid arguments", 1)
		return
	}
	c.Failed, c.End = b.Failed, at
	if c.Start == nil || c.End != nil && *c.End < *c.Start {
		c.End = nil
	}
	t.done = append(t.done, c)
	if t.held += len(c.Text) + len(c.Arguments); t.held > maxHeldText {
		t.flush()
	}
}

// notSent reports whether the client did not send a call that failed.
func notSent(text string, extra json.RawMessage) bool {
	return bytes.Contains(extra, []byte("User rejected tool use")) ||
		slices.ContainsFunc([]string{"The user doesn't want to ", "<tool_use_error>", "Permission to use ", "[Request interrupted by user"},
			func(beginning string) bool { return strings.HasPrefix(text, beginning) })
}

// flush passes the answered calls to Each, ordered by session and turn.
func (t *transcript) flush() {
	slices.SortFunc(t.done, func(a, b *replay.Call) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.Seq, b.Seq))
	})
	calls := make([]replay.Call, len(t.done))
	for i, c := range t.done {
		calls[i] = *c
	}
	t.done, t.held = nil, 0
	if len(calls) > 0 {
		t.r.Each(calls)
	}
}

// end handles the end of the file.
func (t *transcript) end() {
	t.r.leaveOut("without an answer", len(t.open))
	t.flush()
}
