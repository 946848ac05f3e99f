package proxy

import (
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// tasksKnown bounds how many tasks a session remembers the upstream of.
const tasksKnown = 4096

// task names a request that goes on after its answer. Its id is its server's own:
// another may have the same.
type task struct {
	instance uint64 // of the upstream
	id       string
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
	case answer.Stateless && string(jsonrpc.Get(result, "resultType")) == `"task"`:
	case j.task:
		result = jsonrpc.Get(result, "task")
	default:
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
	j.s.tasks[task{l.Instance(), id}] = passage
	j.s.mu.Unlock()
	return true
}

// heardOfTask notes what a server says of a task: its effect has landed when it
// has ended, and is to be reckoned with while it goes on.
func (s *session) heardOfTask(l *leased, id, status []byte) {
	name, _ := jsonrpc.String(id)
	s.mu.Lock()
	passage := s.tasks[task{l.Instance(), name}]
	s.mu.Unlock()
	switch {
	case passage == nil:
	case ended(status):
		passage.End()
	default:
		passage.Doubt()
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
			x.s.heardOfTask(x.lease, id, status)
		}
	case "tasks/result": // answered when it has ended
		x.s.heardOfTask(x.lease, id, []byte(`"completed"`))
	}
}
