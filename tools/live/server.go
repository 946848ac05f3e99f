package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"mcpschedd/tools/launch"
)

const (
	sessionVariable = "MCPSCHEDD_LIVE_SESSION" // of a process on stdio: the label of its session
	sessionHeader   = "X-Live-Session"         // the same over HTTP
)

// recordedFile and journalFile return the names of a session's files.
func recordedFile(dir, label string) string { return filepath.Join(dir, label+".session") }
func journalFile(dir, label string) string  { return filepath.Join(dir, label+".journal") }

// arrival is a line of a journal: a call that reached the server. A serial server writes a second
// one when it begins to work on the call.
type arrival struct {
	Key   string `json:"key"`
	At    int64  `json:"at"`              // ns since 1970
	Began int64  `json:"began,omitempty"` // likewise
}

// house is the state of a server process.
type house struct {
	dir    string
	takes  time.Duration
	serial bool

	mu    sync.Mutex
	rooms map[string]*room // label → state of one session
}

// room is the server of one session, independent of all others.
type room struct {
	world   *world
	journal io.Writer
	writing sync.Mutex    // guards journal
	working chan struct{} // of a serial server: full while it works on a call
}

// serve runs the server: on its pipes for one session, or over HTTP for all.
func serve(ctx context.Context, args []string) error {
	h := &house{rooms: make(map[string]*room)}
	f := flag.NewFlagSet(serverRole, flag.ContinueOnError)
	f.StringVar(&h.dir, "dir", "", "")
	f.DurationVar(&h.takes, "takes", 0, "")
	f.BoolVar(&h.serial, "serial", false, "")
	address := f.String("http", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	s, err := h.listed()
	if err != nil {
		return err
	}
	if *address != "" {
		return serveHTTP(ctx, s, *address)
	}
	in, out, err := launch.Stdio()
	if err != nil {
		return err
	}
	return launch.Serve(ctx, s, in, out)
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, s *server.MCPServer, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: server.NewStreamableHTTPServer(s, server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context {
		return context.WithValue(ctx, labelKey{}, r.Header.Get(sessionHeader))
	}))}
	defer context.AfterFunc(ctx, func() { web.Close() })()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// labelKey is the context key of the session label.
type labelKey struct{}

// listed returns a server with the tools in dir's file: name → whether it is read-only.
func (h *house) listed() (*server.MCPServer, error) {
	data, err := os.ReadFile(filepath.Join(h.dir, toolsFile))
	if err != nil {
		return nil, err
	}
	var tools map[string]bool
	if err := json.Unmarshal(data, &tools); err != nil {
		return nil, err
	}
	s := server.NewMCPServer("recorded", "1", server.WithToolCapabilities(false))
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		t := mcp.NewToolWithRawSchema(name, "A recorded tool.", json.RawMessage(`{"type":"object"}`))
		t.Annotations = mcp.ToolAnnotation{ReadOnlyHint: new(tools[name]), DestructiveHint: new(!tools[name])}
		s.AddTool(t, h.call)
	}
	return s, nil
}

// call waits for its latency, and answers from the recording. It does not end early if it is
// cancelled, like most servers.
func (h *house) call(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	label, over := ctx.Value(labelKey{}).(string)
	if !over {
		label = os.Getenv(sessionVariable)
	}
	room, err := h.room(label)
	if err != nil {
		return nil, err
	}
	arguments, err := json.Marshal(r.GetRawArguments())
	if err != nil {
		return nil, err
	}
	key := keyOf(r.Params.Name, arguments)
	came := arrival{Key: key, At: time.Now().UnixNano()}
	if err := room.note(came); err != nil {
		return nil, err
	}
	if h.serial {
		room.working <- struct{}{}
		defer func() { <-room.working }()
		came.Began = time.Now().UnixNano()
		if err := room.note(came); err != nil {
			return nil, err
		}
	}
	time.Sleep(h.takes)
	text, failed := room.world.call(key)
	result := mcp.NewToolResultText(text)
	result.IsError = failed
	return result, nil
}

// room returns the room of a session.
func (h *house) room(label string) (*room, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.rooms[label]; r != nil {
		return r, nil
	}
	data, err := os.ReadFile(recordedFile(h.dir, label))
	if err != nil {
		return nil, err
	}
	var calls []call
	if err := json.Unmarshal(data, &calls); err != nil {
		return nil, err
	}
	journal, err := os.OpenFile(journalFile(h.dir, label), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	h.rooms[label] = &room{world: newWorld(calls), journal: journal, working: make(chan struct{}, 1)}
	return h.rooms[label], nil
}

// note writes a line into the journal.
func (r *room) note(a arrival) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	return json.NewEncoder(r.journal).Encode(a)
}
