package proxy

import (
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// tasksKnown bounds how many tasks a session remembers the upstream of.
const tasksKnown = 4096

// task is a request that goes on after its answer.
type task struct {
	lease   *leased
	passage *dedup.Passage // until its final status is known
}

// began remembers who runs the task that an answer says has begun, so that later
// questions about it find their way, and holds the passage until its end. It is
// false if there is none: the client asked for one, or, in the stateless era, the
// server made one of the call.
func (j *job) began(l *leased, passage *dedup.Passage, answer upstream.Answer) bool {
	result := answer.Result
	switch {
	case result == nil:
		return false
	case j.task:
		result = jsonrpc.Get(result, "task")
	case !answer.Stateless || string(jsonrpc.Get(result, "resultType")) != `"task"`:
		return false
	}
	id, ok := jsonrpc.String(jsonrpc.Get(result, "taskId"))
	if !ok {
		return false
	}
	passage.Doubt()
	j.s.mu.Lock()
	if len(j.s.tasks) >= tasksKnown {
		clear(j.s.tasks) // who runs a task can still be found by asking
	}
	j.s.tasks[id] = task{l, passage}
	j.s.mu.Unlock()
	return true
}

// heardOfTask notes what a server says of a task: its effect has landed when it
// has ended, and is to be reckoned with while it goes on.
func (s *session) heardOfTask(id, status []byte) {
	name, _ := jsonrpc.String(id)
	s.mu.Lock()
	t, ok := s.tasks[name]
	s.mu.Unlock()
	switch {
	case !ok || t.passage == nil:
	case ended(status):
		t.passage.End()
	default:
		t.passage.Doubt()
	}
}

// ended reports whether a task of that raw status has come to its end.
func ended(status []byte) bool {
	switch string(status) {
	case `"completed"`, `"failed"`, `"cancelled"`:
		return true
	}
	return false
}

// noteTask notes what the answer to a question about a task says of it.
func (x *exchange) noteTask(answer upstream.Answer) {
	id := jsonrpc.Get(x.msg.Params, "taskId")
	switch x.msg.Method {
	case "tasks/get", "tasks/cancel", "tasks/update":
		if status := jsonrpc.Get(answer.Result, "status"); status != nil {
			x.s.heardOfTask(id, status)
		}
	case "tasks/result": // answered when it has ended
		x.s.heardOfTask(id, []byte(`"completed"`))
	}
}
