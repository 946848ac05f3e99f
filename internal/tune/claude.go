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

// ClaudeLogs reads calls from the session logs that Claude Code keeps below
// ~/.claude/projects. All fields are required.
type ClaudeLogs struct {
	Upstreams  []string                                // configured upstreams, of which calls are wanted
	UpstreamOf func(tool string) string                // returns the upstream of a tool that the proxy lists without a prefix; "" if not known
	Each       func(calls []replay.Call)               // called with calls of some sessions of a file, in order; may keep them
	Bad        func(file string, line int, why string) // called for what cannot be read; line 0 means the whole file
	Reading    func(file string)                       // called before each file
}

// Bounds of a log.
const (
	maxClaudeLine = 64 << 20  // bytes; reading of a file stops at a longer line
	maxClaudeText = 256 << 10 // bytes of an answer's text that are kept
	maxHeldText   = 32 << 20  // bytes of texts and arguments held before they are passed to Each
	maxSeenCalls  = 1 << 17   // ids of calls remembered, as a resumed session repeats them
	maxReasons    = 1000      // distinct reasons in leftOut
)

// Read reads every .jsonl file below a folder in the order of their names. It returns the number
// of calls left out by reason. It fails only if the folder cannot be read or ctx is done.
//
// The format of these files is undocumented and has changed before, so Read uses whatever parts
// of a line it understands. Known facts: each line is one message; a response of the model is
// spread over several lines with the same message id, one block each; a block may be repeated; a
// resumed session begins with a copy of the previous one, with the same tool_use ids; messages
// of subagents are in separate files.
func (l ClaudeLogs) Read(ctx context.Context, dir string) (leftOut map[string]int, err error) {
	r := claudeReader{ClaudeLogs: l, leftOut: make(map[string]int)}
	r.seen, _ = lru.New[string, struct{}](maxSeenCalls) // fails only for a size below 1
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

// claudeReader is the state of ClaudeLogs.Read.
type claudeReader struct {
	ClaudeLogs
	leftOut map[string]int
	seen    *lru.Cache[string, struct{}] // ids of calls
}

// leaveOut counts calls that are left out.
func (r *claudeReader) leaveOut(why string, n int) {
	if _, known := r.leftOut[why]; !known && len(r.leftOut) >= maxReasons {
		why = "of other servers"
	}
	if n > 0 {
		r.leftOut[why] += n
	}
}

// file reads one file. It returns only the error of ctx.
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
	lines.Buffer(nil, maxClaudeLine)
	number := 1
	for ; lines.Scan() && ctx.Err() == nil; number++ {
		if text := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))); len(text) > 0 {
			t.line(number, text)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		r.Bad(path, number, fmt.Sprintf("a line of more than %d MiB: the rest of the file is not read", maxClaudeLine>>20))
	case err != nil:
		r.Bad(path, number, record.Cause(err))
	}
	return ctx.Err()
}

// proxyName is the default name of the proxy in a client's configuration.
const proxyName = "mcpschedd"

// resolve returns the upstream/tool that a tool name in a client's log stands for, whether the
// client used the server directly (mcp__github__get_issue) or through the proxy
// (mcp__mcpschedd__github__get_issue). Otherwise it returns the reason for leaving the call out.
//
// If the proxy has another name, the tool's second part identifies the upstream. Names of
// upstreams contain no "__", so names are unambiguous.
func (l *ClaudeLogs) resolve(name string) (tool, why string) {
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
		if owner := l.UpstreamOf(tool); owner != "" {
			return owner + "/" + tool, ""
		}
		if divided {
			server += "__" + behind
		}
	}
	return "", "of server " + strconv.QuoteToGraphic(server) + ", which is not an upstream here"
}
