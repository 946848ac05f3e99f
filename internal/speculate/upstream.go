package speculate

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"mcpschedd/internal/predict"
)

// upstreamState is what is known of the calls to one upstream. The worker owns it.
type upstreamState struct {
	model       *predict.Model
	made        Rules       // it was made under
	keep        Learned     // nil: what is learned is not kept
	news        bool        // something was seen since it was kept
	kept        time.Time   // when
	at          *Upstream   // the lease of the session that is looked at
	concurrency Concurrency // how its last instance works on several calls
}

// upstream returns what is known of an upstream, read from where it is kept when
// it is first needed.
func (w *Worker) upstream(at *Upstream) *upstreamState {
	rules := w.Rules()
	o := w.upstreams[at.Key]
	if o != nil && o.made == *rules {
		o.at = at
		return o
	}
	old := o
	o = &upstreamState{made: *rules, keep: at.Learned, at: at}
	o.model = predict.New(predict.Options{
		Tool: func(name string) predict.Tool { return o.at.Tool(name) }, Learn: rules.Learn, ShadowLabels: rules.ShadowLabels, MaxAge: rules.Age(at.Exclusive),
	})
	if old != nil { // its rules have changed; sessions begin anew under the next ones
		o.concurrency = old.concurrency
		for _, s := range w.sessions {
			delete(s.pairs, at.Key)
		}
		w.faults.recovering(func() { w.handDown(old, o) })
	}
	w.upstreams[at.Key] = o
	w.keepOne(o)
	w.proveAll(o)
	for _, tool := range o.model.Seen() {
		w.publish(o, tool)
	}
	return o
}

// handDown hands on what was learned under other rules: by where it is kept, or, if
// it is not, by itself.
func (w *Worker) handDown(old, next *upstreamState) {
	if old.keep != nil {
		w.keepOne(old)
		return
	}
	state, err := old.model.Merge(nil)
	if err == nil {
		_, err = next.model.Merge(state)
	}
	if err != nil {
		w.Log.Warn("what was learned is lost with the old configuration", "upstream", old.at.Name, "err", err)
	}
}

// look says whether the upstream offers anything that may be run early, and has
// its calls left alone from now on if it does not.
func (o *upstreamState) look() {
	tools := o.at.Tools()
	for _, name := range tools {
		if m := o.at.Tool(name).Model; m != nil && m.Speculate != nil && *m.Speculate && (m.Class.Reads() || m.Classify != "") {
			return
		}
	}
	o.at.Useless()
}

// keepAtMost is how often what was learned is kept because a session has ended.
// Whatever is left is kept at the end.
const keepAtMost = 30 * time.Second

// forget drops what is known of upstreams that are there no more.
func (w *Worker) forget() {
	for key, o := range w.upstreams {
		if w.Gone(key) {
			w.keepOne(o)
			delete(w.upstreams, key)
			w.figures.forget(o.at.Name)
			continue
		}
		w.proveAll(o) // the operator may have given their word for a tool
	}
	w.learned.forget(w.Gone)
}

// keepAll keeps what was learned of every upstream.
func (w *Worker) keepAll() {
	for _, o := range w.upstreams {
		if o.news {
			w.keepOne(o)
		}
	}
}

// keepOne joins what was learned with what is stored, which other processes may
// have added to. What cannot be read or written is no reason to stop learning.
func (w *Worker) keepOne(o *upstreamState) {
	o.news, o.kept = false, time.Now()
	if o.keep == nil {
		return
	}
	joined := func() {
		commit := func() {}
		err := o.keep(func(stored []byte) (next []byte, err error) {
			stored, known := cutConcurrency(stored)
			o.concurrency = cmp.Or(w.concurrency(o), o.concurrency, known)
			next, commit, err = o.model.Join(stored)
			if err != nil {
				w.Log.Warn("learned state not read in full; what is left of it is used", "upstream", o.at.Name, "err", err)
			}
			return appendConcurrency(next, o.concurrency), nil
		})
		if err == nil {
			commit()
		} else {
			w.Log.Warn("learned state not kept", "upstream", o.at.Name, "err", err)
		}
	}
	if !w.faults.recovering(joined) {
		o.keep = nil // what was learned, its bars above all, still counts in this process
	}
}

// concurrency is how the instances of the upstream that sessions use work on several calls.
func (w *Worker) concurrency(o *upstreamState) (is Concurrency) {
	for _, s := range w.sessions {
		for instance, at := range s.instances {
			if at.Key == o.at.Key {
				is = cmp.Or(is, w.Scheduler.Concurrency(instance))
			}
		}
	}
	return is
}

// concurrencyLine begins the last line of what is kept of an upstream, behind what the
// model keeps.
var concurrencyLine = []byte("concurrency: ")

// SplitLearned divides what is kept of an upstream into what belongs to its server, in
// whatever folder it is used, and the values of the sessions of one folder. Behind the values
// the server's part is the whole again.
func SplitLearned(state []byte) (server, values []byte) {
	state, is := cutConcurrency(state)
	server, values = predict.Split(state)
	return appendConcurrency(server, is), values
}

// cutConcurrency takes that line off.
func cutConcurrency(stored []byte) (rest []byte, is Concurrency) {
	at := bytes.LastIndexByte(bytes.TrimSuffix(stored, []byte{'\n'}), '\n') + 1
	name, ok := bytes.CutPrefix(stored[at:], concurrencyLine)
	if !ok {
		return stored, Unknown
	}
	switch string(bytes.TrimSpace(name)) {
	case Serial.String():
		is = Serial
	case Parallel.String():
		is = Parallel
	}
	return stored[:at], is
}

// appendConcurrency adds it, if there is something to say.
func appendConcurrency(state []byte, is Concurrency) []byte {
	if is == Unknown {
		return state
	}
	return fmt.Appendf(state, "%s%v\n", concurrencyLine, is)
}
