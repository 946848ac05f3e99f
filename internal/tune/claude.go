package tune

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
)

// ClaudeLogs says what is to be read out of the session logs that Claude Code keeps
// below ~/.claude/projects. Each is required.
type ClaudeLogs struct {
	Upstreams []string                                // those that are configured: calls of their tools are wanted
	Bare      func(tool string) string                // the upstream of a tool that the proxy lists by its bare name, "" if that is not known
	Each      func(calls []replay.Call)               // takes calls of some sessions of a file, in order; it may keep them
	Bad       func(file string, line int, why string) // told of what cannot be read, which is left out; line 0: of the file
	Reading   func(file string)                       // told before each file
}

// Bounds on what is held of a log.
const (
	longestClaudeLine = 64 << 20  // bytes; a file is not read beyond a longer one
	longestClaudeText = 256 << 10 // bytes of an answer's text: a screenshot is of no use here
	heldClaudeText    = 32 << 20  // bytes, of what has been read of a file and not handed on
	seenClaudeCalls   = 1 << 17   // ids of calls that are known again: a resumed session repeats them
	mostLeftOut       = 1000      // reasons that are told apart
)

// Read reads every .jsonl file below a folder, one after the other, in the order of their
// names, and returns why calls were left out, and how many. It fails only if the folder
// cannot be read or ctx ends.
//
// The form of these files is described nowhere by their makers, and has changed before: a
// line that is understood in part is used as far as it is. What is known of them: one
// message a line; an answer of the model is spread over several lines that bear one message
// id, a block each; a block may be written more than once; a resumed session begins with a
// copy of the one before, under the same tool_use ids; messages of sub-agents stand in files
// of their own.
func (l ClaudeLogs) Read(ctx context.Context, dir string) (leftOut map[string]int, err error) {
	r := claudeReader{ClaudeLogs: l, leftOut: make(map[string]int)}
	r.seen, _ = lru.New[string, struct{}](seenClaudeCalls) // it fails for a size below 1
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && path == dir:
			return err
		case err != nil:
			l.Bad(path, 0, record.Cause(err))
			return nil
		case path == dir && !d.IsDir():
			return fmt.Errorf("%s: want a folder", dir)
		case filepath.Ext(path) != ".jsonl" || !d.Type().IsRegular():
			return nil
		}
		return r.file(ctx, path)
	})
	return r.leftOut, err
}

// claudeReader reads one file after the other.
type claudeReader struct {
	ClaudeLogs
	leftOut map[string]int
	seen    *lru.Cache[string, struct{}] // ids of calls
}

// leave counts calls that are left out.
func (r *claudeReader) leave(why string, n int) {
	if _, known := r.leftOut[why]; !known && len(r.leftOut) >= mostLeftOut {
		why = "of other servers"
	}
	if n > 0 {
		r.leftOut[why] += n
	}
}

// file reads one file. Its error is that of ctx.
func (r *claudeReader) file(ctx context.Context, path string) error {
	r.Reading(path)
	f, err := os.Open(path)
	if err != nil {
		r.Bad(path, 0, record.Cause(err))
		return nil
	}
	defer f.Close()
	t := newTranscript(r, path)
	defer t.end()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longestClaudeLine)
	number := 1
	for ; lines.Scan() && ctx.Err() == nil; number++ {
		if text := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))); len(text) > 0 {
			t.line(number, text)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		r.Bad(path, number, fmt.Sprintf("a line of more than %d MiB: the rest of the file is not read", longestClaudeLine>>20))
	case err != nil:
		r.Bad(path, number, record.Cause(err))
	}
	return ctx.Err()
}

// proxyName is what the proxy is called in a client's configuration, unless its user
// calls it otherwise.
const proxyName = "mcpschedd"

// meant says what the name of a tool in a client's log stands for: upstream/tool of a
// configured upstream, whether the client had it by itself (mcp__github__get_issue) or
// through the proxy (mcp__mcpschedd__github__get_issue). Else it says why its calls are left
// out.
//
// Under any other name of its own the proxy is known by what it lists. The names of
// upstreams hold no "__", so that nothing has two readings.
func (l *ClaudeLogs) meant(name string) (tool, why string) {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok {
		return "", "of the client's own tools, which no proxy sees"
	}
	server, tool, _ := strings.Cut(rest, "__")
	if tool != "" && slices.Contains(l.Upstreams, server) {
		return server + "/" + tool, ""
	}
	behind, inner, divided := strings.Cut(tool, "__")
	switch {
	case inner != "" && slices.Contains(l.Upstreams, behind):
		return behind + "/" + inner, ""
	case server != proxyName || tool == "":
	case tool == "execute_tool_plan" || strings.HasPrefix(tool, "mcpschedd_") || divided && behind == "plan":
		return "", "of the proxy's own tools"
	default:
		if owner := l.Bare(tool); owner != "" {
			return owner + "/" + tool, ""
		}
		if divided {
			server += "__" + behind
		}
	}
	return "", "of server " + strconv.QuoteToGraphic(server) + ", which is no upstream here"
}
