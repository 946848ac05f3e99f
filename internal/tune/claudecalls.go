package tune

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/replay"
)

// transcript makes calls of the lines of one file.
type transcript struct {
	r     *claudeReader
	path  string
	open  map[string]*claudeCall // tool_use id → call that waits for its answer
	done  []*claudeCall
	held  int // bytes of their texts and arguments
	turns map[string]int
	sides map[string]string // uuid of a sub-agent's message → that of its first
	order int
	wrong int
}

// claudeCall is a call, and where it belongs in the file.
type claudeCall struct {
	replay.Call
	order int
}

func newTranscript(r *claudeReader, path string) *transcript {
	return &transcript{
		r: r, path: path, open: make(map[string]*claudeCall),
		turns: make(map[string]int), sides: make(map[string]string),
	}
}

// bad tells of a line, the first few of a file one by one.
func (t *transcript) bad(line int, why string) {
	if t.wrong++; t.wrong <= worstClaudeLines {
		t.r.Bad(t.path, line, why)
	}
}

// line takes one line. Most hold neither a call nor the answer to one that is
// waited for, and are not decoded.
func (t *transcript) line(number int, line []byte) {
	if line[0] != '{' || line[len(line)-1] != '}' {
		t.bad(number, "want one JSON object: the line is cut, or the file is none of a client's sessions")
		return
	}
	side := bytes.Contains(line, []byte(`"isSidechain":true`))
	call := bytes.Contains(line, []byte(`"tool_use"`))
	answer := len(t.open) > 0 && bytes.Contains(line, []byte(`"tool_result"`))
	if !call && !answer && !side {
		return
	}
	var m claudeMessage
	if err := json.Unmarshal(line, &m); err != nil {
		t.bad(number, "want a message of a session: "+err.Error())
		return
	}
	t.branch(&m)
	blocks, err := m.blocks()
	if err != nil {
		t.bad(number, "message.content: "+err.Error())
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

// branch notes to which chain of messages one of a sub-agent belongs. Chains of
// several that work at once are told apart by their beginnings.
func (t *transcript) branch(m *claudeMessage) {
	if !m.Side || m.Agent != "" {
		return
	}
	root := cmp.Or(t.sides[m.Parent], m.UUID)
	t.sides[strings.Clone(m.UUID)] = strings.Clone(root)
}

// session names the session of a message: what a sub-agent calls follows from its own
// answers, and not from those that others get meanwhile.
func (t *transcript) session(m *claudeMessage) string {
	name := cmp.Or(m.Session, t.path)
	if m.Side || m.Agent != "" {
		name += "/" + cmp.Or(m.Agent, t.sides[m.UUID])
	}
	return name
}

// claudeTime is a time in ms since 1970; nil: none, or one that cannot be.
func claudeTime(text string) *int64 {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Year() < 2000 || at.Year() > 2199 {
		return nil
	}
	ms := at.UnixMilli()
	return &ms
}

// call notes a call of a tool that is wanted, and counts one that is not.
func (t *transcript) call(m *claudeMessage, b *claudeBlock, at *int64) {
	if b.ID == "" || b.Name == "" || !t.r.seen.add(b.ID) {
		return
	}
	tool, kind, of := t.r.meant(b.Name)
	switch kind {
	case builtIn:
		countName(t.r.found.BuiltIn, of)
		return
	case unknownServer:
		countName(t.r.found.Unknown, of)
		return
	case ownTool:
		t.r.found.Own++
		return
	}
	arguments := bytes.TrimSpace(b.Input)
	if len(arguments) == 0 || arguments[0] != '{' {
		arguments = []byte("{}")
	}
	session := t.session(m)
	turn := session + "\x00" + cmp.Or(m.Message.ID, m.UUID, b.ID)
	if _, known := t.turns[turn]; !known {
		t.turns[turn] = len(t.turns) + 1
	}
	t.order++
	t.open[b.ID] = &claudeCall{order: t.order, Call: replay.Call{
		Dataset: "claude", Session: session, Batch: t.turns[turn],
		Start: at, Tool: tool, Arguments: bytes.Clone(arguments),
	}}
}

// mostNames is how many names of what is not wanted are counted by themselves.
const mostNames = 1000

func countName(counts map[string]int, name string) {
	if _, known := counts[name]; !known && len(counts) >= mostNames {
		name = "others"
	}
	counts[strings.Clone(name)]++
}

// answer ends a call.
func (t *transcript) answer(m *claudeMessage, b *claudeBlock, at *int64) {
	c := t.open[b.Use]
	if c == nil {
		return
	}
	delete(t.open, b.Use)
	c.Text, c.Bytes = b.text()
	if neverMade(c.Text, m.Extra, b.Failed) {
		t.r.found.Refused++
		return
	}
	c.Failed, c.End = b.Failed, at
	if c.Start == nil || c.End != nil && *c.End < *c.Start {
		c.End = nil
	}
	t.done = append(t.done, c)
	if t.held += len(c.Text) + len(c.Arguments); t.held > heldClaudeText {
		t.hand()
	}
}

// neverMade reports whether a call never left the client.
func neverMade(text string, extra json.RawMessage, failed bool) bool {
	if !failed {
		return false
	}
	var said string
	_ = json.Unmarshal(extra, &said) // as a rule no text
	return strings.Contains(said, "User rejected tool use") ||
		strings.HasPrefix(text, "The user doesn't want to ") ||
		strings.HasPrefix(text, "<tool_use_error>") ||
		strings.HasPrefix(text, "Permission to use ") ||
		strings.HasPrefix(text, "[Request interrupted by user")
}

// hand hands on the calls that have been answered, session by session, the turns of
// each in order.
func (t *transcript) hand() {
	slices.SortFunc(t.done, func(a, b *claudeCall) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.order, b.order))
	})
	calls := make([]replay.Call, len(t.done))
	found := &t.r.found
	for i, c := range t.done {
		c.Seq = c.order
		calls[i] = c.Call
		t.r.sessions.add(c.Session)
		for _, at := range []*int64{c.Start, c.End} {
			if at != nil {
				found.To = max(found.To, *at)
				if found.From == 0 || *at < found.From {
					found.From = *at
				}
			}
		}
	}
	found.Calls += len(calls)
	t.done, t.held = nil, 0
	if len(calls) > 0 {
		t.r.Each(t.path, calls)
	}
}

// end is the end of the file.
func (t *transcript) end() {
	t.r.found.Open += len(t.open)
	t.hand()
	if more := t.wrong - worstClaudeLines; more > 0 {
		t.r.Bad(t.path, 0, fmt.Sprintf("and %d more lines like these", more))
	}
}

// sources of what stands for an answer that was too long to be shown.
var (
	savedOutput  = regexp.MustCompile(`^<persisted-output>\s*Output too large \(([0-9.]+) ?([KMG]?B)\)`)
	savedMCP     = regexp.MustCompile(`^(?:Error: )?result \(([0-9,]+) characters\) exceeds maximum allowed tokens`)
	savedUnits   = map[string]float64{"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
	longestSaved = float64(1 << 40)
)

// keptElsewhere reads the note that stands for such an answer: its size in bytes.
func keptElsewhere(text string) (size int, kept bool) {
	if m := savedOutput.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		n *= savedUnits[m[2]]
		return int(min(n, longestSaved)), err == nil
	}
	if m := savedMCP.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
		return int(min(n, longestSaved)), err == nil
	}
	return 0, false
}

// Notes say what was found and left out.
func (c Claude) Notes() []string {
	var notes []string
	note := func(n int, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	note(len(c.Unknown), "calls of servers that are no upstreams here, left out: %s", listNames(c.Unknown))
	note(len(c.BuiltIn), "calls of the client's own tools, which no proxy sees, left out: %s", listNames(c.BuiltIn))
	note(c.Own, "%d calls of the proxy's own tools, left out", c.Own)
	note(c.Refused, "%d calls that the client did not make, as the user or a rule said no or their arguments were wrong, left out", c.Refused)
	note(c.Open, "%d calls without an answer, left out", c.Open)
	return notes
}

// shownNames is how many names a note lists.
const shownNames = 12

func listNames(counts map[string]int) string {
	names := byCount(counts)
	var parts []string
	for _, name := range names[:min(len(names), shownNames)] {
		parts = append(parts, fmt.Sprintf("%s %d", strconv.QuoteToGraphic(name), counts[name]))
	}
	if more := len(names) - shownNames; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more names", more))
	}
	return strings.Join(parts, ", ")
}
