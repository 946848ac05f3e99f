package main

import "sync"

// world is a recorded session as the state of its server. An answer changes when the writes were
// made after which it had changed in the recording.
type world struct {
	mu      sync.Mutex
	answers map[string][]answer // call.Key → its answers, in order
	writes  int                 // number of writes so far
}

// answer is a recorded answer.
type answer struct {
	text   string
	failed bool
	reads  bool
	after  int // number of writes before it
}

// notRecorded is the answer to a call that the session does not make.
const notRecorded = "nothing of this was recorded"

func newWorld(calls []call) *world {
	w := &world{answers: make(map[string][]answer)}
	writes := 0
	for _, c := range calls {
		w.answers[c.Key] = append(w.answers[c.Key], answer{c.Text, c.Failed, c.Reads, writes})
		if !c.Reads {
			writes++
		}
	}
	return w
}

// call returns the current answer to a call: for a read the last recorded answer after the same
// number of writes, for a write its next recorded answer.
func (w *world) call(key string) (text string, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.answers[key]
	if len(all) == 0 {
		return notRecorded, false
	}
	now := all[0]
	if !now.reads {
		w.writes++
		if len(all) > 1 {
			w.answers[key] = all[1:]
		}
		return now.text, now.failed
	}
	for _, a := range all {
		if a.after <= w.writes {
			now = a
		}
	}
	return now.text, now.failed
}
