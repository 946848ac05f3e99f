package main

import "sync"

// world is a recorded session as the state of its server: an answer changes when the session
// had made the writes after which it was another.
type world struct {
	mu      sync.Mutex
	answers map[string][]answer // call.Key → its answers, in order
	writes  int                 // that were made so far
}

// answer is what a call was answered.
type answer struct {
	text   string
	failed bool
	reads  bool
	after  int // that many writes
}

// notRecorded answers a call that the session does not make.
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

// call is what a call is answered now: a read as it was answered last in the recording after
// the writes that were made so far, a write as it was answered in its turn.
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
