package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is a process to start, and the settings of its client.
type process struct {
	name    string // for errors
	command []string
	env     map[string]string // added to the environment of this process
	dir     string            // its working directory; default: that of this process
	roots   json.RawMessage   // the answer to roots/list
	options
}

// client speaks MCP to one process, on its pipes, one request at a time.
type client struct {
	process
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // read after its end
	next   int          // the last id
}

// message is a JSON-RPC message with raw values.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// answer is the response to a request.
type answer struct {
	Result   json.RawMessage   `json:"result,omitempty"`
	Error    json.RawMessage   `json:"error,omitempty"`
	Progress []json.RawMessage `json:"progress,omitempty"` // params of the progress notifications before it
}

func start(ctx context.Context, p process) (*client, error) {
	c := &client{process: p, cmd: exec.CommandContext(ctx, p.command[0], p.command[1:]...)}
	c.cmd.Dir = p.dir
	c.cmd.Env = os.Environ()
	for k, v := range p.env {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	c.in, c.out = in, bufio.NewReaderSize(out, 1<<20)
	return c, nil
}

// close ends the process as a client would: by closing its input, and by force if it does not end.
func (c *client) close() {
	c.in.Close()
	kill := time.AfterFunc(10*time.Second, func() { c.cmd.Process.Kill() })
	defer kill.Stop()
	io.Copy(io.Discard, c.out)
	c.cmd.Wait() // the exit status does not matter
}

// ask sends a request, and answers the server's questions until the response arrives.
func (c *client) ask(method string, params json.RawMessage) (answer, error) {
	c.next++
	id := c.next
	if err := c.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return answer{}, c.fail(method, err)
	}
	late := time.AfterFunc(c.timeout, func() { c.cmd.Process.Kill() })
	defer late.Stop()
	var a answer
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return answer{}, c.fail(method, err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return answer{}, c.fail(method, fmt.Errorf("%w: %.200s", err, line))
		}
		switch {
		case m.Method != "" && m.ID != nil:
			if err := c.serve(m); err != nil {
				return answer{}, c.fail(method, err)
			}
		case m.Method == "notifications/progress":
			a.Progress = append(a.Progress, m.Params)
		case m.Method != "": // logs and list changes may come at any time
		case string(m.ID) == fmt.Sprint(id):
			a.Result, a.Error = m.Result, m.Error
			return a, nil
		default:
			return answer{}, c.fail(method, fmt.Errorf("an answer to no request: %.200s", line))
		}
	}
}

// serve answers a question of the server, always in the same way.
func (c *client) serve(m message) error {
	reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
	switch m.Method {
	case "ping":
		reply["result"] = struct{}{}
	case "roots/list":
		reply["result"] = c.roots
	case "sampling/createMessage":
		reply["result"] = json.RawMessage(`{"role":"assistant","content":{"type":"text","text":"sampled"},"model":"none"}`)
	case "elicitation/create":
		reply["result"] = json.RawMessage(`{"action":"decline"}`)
	default:
		reply["error"] = json.RawMessage(`{"code":-32601,"message":"method not found"}`)
	}
	return c.send(reply)
}

func (c *client) tell(method string) error {
	return c.send(map[string]any{"jsonrpc": "2.0", "method": method})
}

// send writes a message. The encoder leaves raw values unchanged, except that it removes white
// space.
func (c *client) send(m map[string]any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return err
	}
	_, err := c.in.Write(b.Bytes())
	return err
}

// fail ends the process, and returns an error with its stderr.
func (c *client) fail(method string, err error) error {
	c.close()
	if errors.Is(err, io.EOF) {
		err = errors.New("the process ended, or gave no answer in time")
	}
	return fmt.Errorf("%s: %s: %w\n%s", c.name, method, err, c.stderr.Bytes()[max(0, c.stderr.Len()-2000):])
}
