package mcptest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// behaviours are the names of the tools, which call implements.
var behaviours = []string{
	"echo", "hold", "hang", "progress", "log", "ask", "die", "closeout", "closein",
	"garbage", "big", "seen", "change", "update", "task", "pid", "status", "lose", "cut",
}

// arguments are the arguments of all tools.
type arguments struct {
	Gate       string            // hold: address of the gate
	N          int               // progress, log, change: number of notifications; big: bytes of the text
	Late       bool              // progress: one more notification after the result
	Level      string            // log; default info
	Asks       []json.RawMessage // ask: requests {"method":…,"params":…}, sent concurrently
	Rounds     int               // ask: number of repetitions; default 1
	Names      []string          // change: names of the new tools
	URI        string            // update
	Lines      [][]byte          // garbage: what to print; $ID is the request's id
	Stderr     []string          // die: lines to print
	Kill       bool              // die: by a signal
	Status     int               // status: HTTP status code
	Body       string            // status: body of the response
	RetryAfter string            // status: the header, unless empty
	Path       string            // read: path of the file
}

// call runs one tool.
func (r *request) call() ([]byte, *jsonrpc.Error) {
	name, _ := jsonrpc.String(jsonrpc.Get(r.Params, "name"))
	raw := jsonrpc.Get(r.Params, "arguments")
	if result, ok := r.srv.o.Results[name]; ok {
		if object, bad := strings.CutPrefix(result, "error "); bad {
			r.send(jsonrpc.AppendError(nil, r.ID, []byte(object)))
			return nil, nil
		}
		return []byte(result), nil
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "arguments: want an object"}
	}
	if jsonrpc.Get(r.Params, "task") != nil {
		return r.begin("task"), nil
	}
	var a arguments
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	switch name {
	case "hold": // waits at the gate
		if err := waitAtGate(r.ctx, a.Gate); err != nil {
			return nil, nil
		}
	case "hang": // never answers
		<-r.ctx.Done()
		return nil, nil
	case "progress":
		r.progress(a)
		return nil, nil
	case "log": // a log message that names no request
		for i := range max(a.N, 1) {
			r.log(a.Level, i)
		}
	case "ask": // sends requests to the client and returns its responses
		return r.askAll(a)
	case "garbage": // prints lines before the result
		for _, line := range a.Lines {
			r.send(bytes.ReplaceAll(line, []byte("$ID"), r.ID))
		}
	case "big":
		return []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("x", a.N) + `"}]}`), nil
	case "seen": // returns every message received so far
		return structured([]byte("[" + strings.Join(r.srv.Seen(), ",") + "]")), nil
	case "change": // replaces the tools and notifies the clients
		r.srv.change(a)
	case "update": // notifies the clients that a resource has changed
		r.srv.Announce("notifications/resources/updated", fmt.Sprintf(`{"uri":%q}`, a.URI))
	case "task":
		return r.begin(""), nil
	case "read": // returns the text of a file; not among the default tools
		text, err := os.ReadFile(a.Path)
		if err != nil {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
		return fmt.Appendf(nil, `{"content":[{"type":"text","text":%s}]}`, jsonrpc.AppendString(nil, string(text))), nil
	case "pid":
		return structured(fmt.Append(nil, os.Getpid())), nil
	case "die", "closeout", "closein":
		return r.fault(name, a)
	}
	return r.echo(), nil
}

// echo returns a result with the name of the server and the params of the request.
func (r *request) echo() []byte {
	text := jsonrpc.AppendString(nil, r.srv.o.Name)
	return []byte(`{"content":[{"type":"text","text":` + string(text) + `}],"structuredContent":` + string(r.Params) + `}`)
}

func structured(value []byte) []byte {
	return []byte(`{"content":[],"structuredContent":` + string(value) + `}`)
}

// progress sends the result itself, so that a notification can follow it.
func (r *request) progress(a arguments) {
	token := jsonrpc.Get(jsonrpc.Get(r.Params, "_meta"), "progressToken")
	say := func(i int) {
		if token != nil {
			r.send(jsonrpc.AppendNotification(nil, "notifications/progress", fmt.Appendf(nil, `{"progressToken":%s,"progress":%d,"from":%q}`, token, i, r.srv.o.Name)))
		}
	}
	for i := range a.N {
		say(i + 1)
	}
	r.send(jsonrpc.AppendResult(nil, r.ID, r.complete(r.echo())))
	if a.Late {
		say(a.N + 1)
	}
}

func (r *request) log(level string, i int) {
	if level == "" {
		level = "info"
	}
	r.send(jsonrpc.AppendNotification(nil, "notifications/message", fmt.Appendf(nil, `{"level":%q,"data":"%s %d"}`, level, r.srv.o.Name, i)))
}

// askAll sends all requests of a.Asks to the client concurrently, a.Rounds times: as requests
// in the handshake era, as input_required results in the stateless era.
func (r *request) askAll(a arguments) ([]byte, *jsonrpc.Error) {
	if r.stateless {
		return r.askByResult(a)
	}
	var said []string
	for range max(a.Rounds, 1) {
		answers := make([]string, len(a.Asks))
		var all sync.WaitGroup
		for i, q := range a.Asks {
			method, _ := jsonrpc.String(jsonrpc.Get(q, "method"))
			all.Go(func() { answers[i] = string(r.ask(method, jsonrpc.Get(q, "params"))) })
		}
		all.Wait()
		said = append(said, answers...)
	}
	return structured([]byte("[" + strings.Join(said, ",") + "]")), nil
}

// askByResult keeps the responses so far in requestState, one per line after a first line
// that marks the state. encoding/json would reformat them.
func (r *request) askByResult(a arguments) ([]byte, *jsonrpc.Error) {
	state, again := jsonrpc.String(jsonrpc.Get(r.Params, "requestState"))
	said := strings.Split(state, "\n")[1:]
	if again {
		for i := range a.Asks {
			answer := jsonrpc.Get(jsonrpc.Get(r.Params, "inputResponses"), fmt.Sprintf("a%d", i))
			if answer == nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("inputResponses: a%d is missing", i)}
			}
			said = append(said, string(answer))
		}
	}
	if len(said) >= len(a.Asks)*max(a.Rounds, 1) && again {
		return structured([]byte("[" + strings.Join(said, ",") + "]")), nil
	}
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	for i, q := range a.Asks {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `"a%d":%s`, i, q)
	}
	next := strings.Join(append([]string{"state"}, said...), "\n")
	return append(jsonrpc.AppendString(append(out, `},"requestState":`...), next), '}'), nil
}

func (s *Server) change(a arguments) {
	var tools []string
	for _, name := range a.Names {
		tools = append(tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
	}
	if tools != nil {
		s.SetTools(tools...)
	}
	for range max(a.N, 1) {
		s.Announce("notifications/tools/list_changed", "{}")
	}
}

// begin creates a task for the call and returns its result.
func (r *request) begin(member string) []byte {
	r.srv.mu.Lock()
	id := fmt.Sprintf("%s-%d", r.srv.o.Name, len(r.srv.tasks))
	r.srv.tasks = append(r.srv.tasks, id)
	r.srv.mu.Unlock()
	if member == "" {
		return fmt.Appendf(nil, `{"resultType":"task","taskId":%q,"status":"working"}`, id)
	}
	return fmt.Appendf(nil, `{"task":{"taskId":%q,"status":"working"}}`, id)
}

func (r *request) task() ([]byte, *jsonrpc.Error) {
	r.srv.mu.Lock()
	tasks := r.srv.tasks
	r.srv.mu.Unlock()
	if r.Method == "tasks/list" {
		out := []string{}
		for _, id := range tasks {
			out = append(out, fmt.Sprintf(`{"taskId":%q}`, id))
		}
		return []byte(`{"tasks":[` + strings.Join(out, ",") + `]}`), nil
	}
	wanted, _ := jsonrpc.String(jsonrpc.Get(r.Params, "taskId"))
	for _, id := range tasks {
		if id == wanted {
			return fmt.Appendf(nil, `{"taskId":%q,"method":%q}`, id, r.Method), nil
		}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such task"}
}

// fault performs the tools that need a process of their own.
func (r *request) fault(name string, a arguments) ([]byte, *jsonrpc.Error) {
	for _, line := range a.Stderr {
		fmt.Fprintln(os.Stderr, line)
	}
	switch name {
	case "die":
		r.srv.o.leak()
		if self, err := os.FindProcess(os.Getpid()); a.Kill && err == nil && self.Kill() == nil {
			time.Sleep(limit) // until the signal arrives
		}
		os.Exit(3)
	case "closeout":
		os.Stdout.Close()
		time.Sleep(limit)
	case "closein":
		os.Stdin.Close()
		stdin.Close()
	}
	return r.echo(), nil
}
