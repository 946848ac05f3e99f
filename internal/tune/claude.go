package tune

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpschedd/internal/replay"
)

// ClaudeLogs says what is to be read out of the session logs that Claude Code keeps
// below ~/.claude/projects. Each is required.
type ClaudeLogs struct {
	Upstreams []string                                // those that are configured: calls of their tools are wanted
	Bare      func(tool string) string                // whose a tool is that the proxy lists by its bare name, "" if that is not known; nil: of the only upstream
	Each      func(file string, calls []replay.Call)  // takes calls of some sessions of a file, in order; it may keep them
	Bad       func(file string, line int, why string) // told of what cannot be read, which is left out; line 0: of the file
	Reading   func(file string)                       // told before each file; nil: nobody
}

// Claude is what was found in session logs beside the calls.
type Claude struct {
	Files    int
	Calls    int            // that were handed on
	Sessions int            // that they belong to, those of sub-agents counted by themselves
	From, To int64          // ms since 1970, of those calls
	BuiltIn  map[string]int // tool of the client's own, which never goes through the proxy → calls
	Unknown  map[string]int // server that is no configured upstream → calls
	Own      int            // calls of the proxy's own tools
	Refused  int            // calls that the client did not make: the user said no, or their arguments were wrong
	Open     int            // calls without an answer in the log
}

// The longest line (bytes) of a log that is read, and how much of an answer's text
// is kept: a screenshot is of no use here, and all texts of a file are held at once.
const (
	longestClaudeLine = 64 << 20
	longestClaudeText = 256 << 10
	heldClaudeText    = 32 << 20 // bytes, of what has been read of a file and not handed on
	worstClaudeLines  = 5        // bad lines of a file that are told one by one
)

// Read reads every .jsonl file below a folder, one after the other, in the order of
// their names. It fails only if the folder cannot be read or ctx ends.
//
// The form of these files is described nowhere by who writes them, and has changed
// before: a line that is understood in part is used as far as it is. What is known of
// them: one message a line; an answer of the model is spread over several lines that
// bear one message id, a block each; a block may be written more than once; a resumed
// session begins with a copy of the one before, under the same tool_use ids; messages
// of sub-agents stand in files of their own, and stood among the others before.
func (l ClaudeLogs) Read(ctx context.Context, dir string) (Claude, error) {
	r := claudeReader{ClaudeLogs: l, seen: newRecentIDs(), sessions: newRecentIDs()}
	r.found.BuiltIn, r.found.Unknown = make(map[string]int), make(map[string]int)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == dir:
			return err
		case err != nil:
			l.Bad(path, 0, plainError(err))
			return nil
		case path == dir && !d.IsDir():
			return fmt.Errorf("%s: want a folder", dir)
		case d.IsDir() || filepath.Ext(path) != ".jsonl":
			return nil
		}
		return r.file(ctx, path)
	})
	r.found.Sessions = r.sessions.n
	return r.found, err
}

// plainError is what went wrong with a file, without its name.
func plainError(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// claudeReader reads one file after the other.
type claudeReader struct {
	ClaudeLogs
	found    Claude
	seen     *recentIDs // ids of calls that were handed on, or left out: a resumed session repeats them
	sessions *recentIDs
}

// file reads one file. Its error is that of ctx.
func (r *claudeReader) file(ctx context.Context, path string) error {
	if r.Reading != nil {
		r.Reading(path)
	}
	f, err := os.Open(path)
	if err != nil {
		r.Bad(path, 0, plainError(err))
		return nil
	}
	defer f.Close()
	if s, err := f.Stat(); err == nil && !s.Mode().IsRegular() {
		r.Bad(path, 0, "not a file")
		return nil
	}
	r.found.Files++
	return r.read(ctx, path, f)
}

// read reads the lines of one file.
func (r *claudeReader) read(ctx context.Context, path string, from io.Reader) error {
	t := newTranscript(r, path)
	defer t.end()
	in := bufio.NewReaderSize(from, 64<<10)
	var line []byte
	for number := 1; ctx.Err() == nil; number++ {
		var err error
		line, err = claudeLine(in, line[:0])
		if text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff"))); len(text) > 0 {
			t.line(number, text)
		}
		switch {
		case errors.Is(err, errLongLine):
			t.bad(number, err.Error())
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			t.bad(number, plainError(err))
			return nil
		}
	}
	return ctx.Err()
}

var errLongLine = fmt.Errorf("a line of more than %d MiB", longestClaudeLine>>20)

// claudeLine appends the next line. One that is too long is passed over: the result
// is empty then.
func claudeLine(in *bufio.Reader, line []byte) ([]byte, error) {
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > longestClaudeLine; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long && (err == nil || errors.Is(err, io.EOF)):
			return line[:0], errLongLine // at the end of the file the next read says so
		}
		return line, err
	}
}

// claudeMessage is a line, as far as it is of use.
type claudeMessage struct {
	Type      string          `json:"type"`
	UUID      string          `json:"uuid"`
	Parent    string          `json:"parentUuid"`
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

// blocks are the blocks of a message; a bare text holds none that matter.
func (m *claudeMessage) blocks() ([]claudeBlock, error) {
	if len(m.Message.Content) == 0 || m.Message.Content[0] != '[' {
		return nil, nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(m.Message.Content, &parts); err != nil {
		return nil, err
	}
	var all []claudeBlock
	var bad error
	for _, part := range parts {
		var b claudeBlock
		if err := json.Unmarshal(part, &b); err != nil {
			bad = err // of a later version, perhaps: the others may be as they were
			continue
		}
		all = append(all, b)
	}
	return all, bad
}

// text is the text of an answer, and how many bytes it has with what is no text. A
// client shows a long answer in part, says how long it was, and keeps it elsewhere.
func (b *claudeBlock) text() (text string, size int) {
	var whole string
	if json.Unmarshal(b.Content, &whole) != nil {
		var parts []json.RawMessage
		_ = json.Unmarshal(b.Content, &parts) // neither: an answer without a text
		var texts []string
		for _, part := range parts {
			var p claudeBlock
			if json.Unmarshal(part, &p) == nil && p.Type == "text" {
				texts = append(texts, p.Text)
				continue
			}
			size += len(part)
		}
		whole = strings.Join(texts, "\n")
	}
	if full, kept := keptElsewhere(whole); kept {
		return "", size + full
	}
	size += len(whole)
	if len(whole) > longestClaudeText {
		whole = strings.ToValidUTF8(whole[:longestClaudeText], "")
	}
	return strings.Clone(whole), size
}

// recentIDs remembers ids without keeping them. It forgets the oldest: at least the
// last half million are known.
type recentIDs struct {
	seed       maphash.Seed
	young, old map[uint64]struct{}
	n          int // different ones, as far as it can tell
}

const seenGeneration = 1 << 19

func newRecentIDs() *recentIDs {
	return &recentIDs{seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
}

// add reports whether the id is new.
func (s *recentIDs) add(id string) bool {
	h := maphash.String(s.seed, id)
	if _, known := s.young[h]; known {
		return false
	}
	_, known := s.old[h]
	if len(s.young) >= seenGeneration {
		s.young, s.old = make(map[uint64]struct{}), s.young
	}
	s.young[h] = struct{}{}
	if !known {
		s.n++
	}
	return !known
}

// byCount are the names of a count, the most frequent first.
func byCount(counts map[string]int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	return names
}
