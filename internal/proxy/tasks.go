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

// running is what is known of a task.
type running struct {
	passage *dedup.PendingWrite // nil: it has come to its end
	nth     int                 // of the session's tasks
}

// before reports whether r is rather meant than q, of two tasks with one id: one
// that still runs, and of those the later one.
func (r running) before(q running) bool {
	if (r.passage == nil) != (q.passage == nil) {
		return r.passage != nil
	}
	return r.nth > q.nth
}

// began remembers who runs the task that an answer says has begun, so that later
// questions about it find their way, and holds the passage until its end. It is
// false if there is none: the client asked for one, or, in the stateless era, the
// server made one of the call.
func (j *upstreamCall) began(l *leased, passage *dedup.PendingWrite, answer upstream.Answer) bool {
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
	l.TaskStarted()
	passage.Doubt()
	j.s.mu.Lock()
	if len(j.s.tasks) >= tasksKnown {
		clear(j.s.tasks) // who runs a task can still be found by asking
	}
	j.s.tasksBegun++
	j.s.tasks[task{l.Instance(), id}] = running{passage, j.s.tasksBegun}
	j.s.mu.Unlock()
	return true
}

// runsTask reports whether a task of the session is not known to have ended.
func (s *session) runsTask() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.tasks {
		if r.passage != nil {
			return true
		}
	}
	return false
}

// heardOfTask notes what a server says of a task: its effect has landed when it
// has ended, and is to be reckoned with while it goes on.
func (s *session) heardOfTask(l *leased, id, status []byte) {
	name, _ := jsonrpc.String(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := task{l.Instance(), name}
	r := s.tasks[t]
	switch {
	case r.passage == nil:
	case ended(status):
		r.passage.End()
		s.tasks[t] = running{nil, r.nth}
	default:
		r.passage.Doubt()
		l.TaskStarted()
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
func (x *request) noteTask(answer upstream.Answer) {
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
