package speculate

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// upstreamState is what is known of the calls to one upstream. The worker owns it.
type upstreamState struct {
	model       *predict.Model
	made        Rules     // it was made under
	keep        Learned   // never nil
	news        bool      // something was seen since it was kept
	kept        time.Time // when
	at          *Upstream // the lease of the session that is looked at
	concurrency Known     // how its instances work on several calls
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
	if o.keep == nil {
		o.keep = inMemory()
	}
	o.model = predict.New(predict.Options{
		Tool: func(name string) predict.Tool { return o.at.Tool(name) }, Learn: rules.Learn, ShadowLabels: rules.ShadowLabels, MaxAge: rules.Age(at.Exclusive),
	})
	if old != nil { // its rules have changed; sessions begin anew under the next ones
		w.keepOne(old)
		o.concurrency, o.keep = old.concurrency, old.keep
		for _, s := range w.sessions {
			delete(s.pairs, at.Key)
		}
	}
	w.upstreams[at.Key] = o
	w.keepOne(o)
	w.prove(o)
	for _, tool := range o.model.Seen() {
		w.publish(o, tool)
	}
	return o
}

// usual is how long calls take, by tool, as far as that was learned.
func (o *upstreamState) usual() map[string]enrich.Spread {
	all := make(map[string]enrich.Spread)
	for _, tool := range o.model.Seen() {
		if u := o.model.Usual(tool); u.Latency.P50 > 0 {
			all[tool] = u.Latency
		}
	}
	return all
}

// inMemory keeps what was learned for as long as the process lives.
func inMemory() Learned {
	var kept []byte
	return func(merge func([]byte) ([]byte, error)) (err error) {
		kept, err = merge(kept)
		return err
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
			continue
		}
		w.prove(o) // the operator may have given their word for a tool
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
	joined := func() {
		commit := func() {}
		err := o.keep(func(stored []byte) (next []byte, err error) {
			stored, known := cutConcurrency(stored)
			o.concurrency = w.concurrency(o).or(o.concurrency).or(known)
			next, commit, err = o.model.Join(stored)
			if err != nil {
				w.Log.Warn("learned state not read in full; what is left of it is used", "upstream", o.at.Name, "err", err)
			}
			return append(next, concurrencyLine(o.concurrency)...), nil
		})
		if err == nil {
			commit()
		} else {
			w.Log.Warn("learned state not kept", "upstream", o.at.Name, "err", err)
		}
	}
	if !w.faults.recovering(joined) {
		o.keep = inMemory() // what was learned, its bars above all, still counts in this process
	}
}

// concurrency is how the instances of the upstream that sessions use work on several calls.
func (w *Worker) concurrency(o *upstreamState) (known Known) {
	for _, s := range w.sessions {
		for instance, at := range s.instances {
			if at.Key == o.at.Key {
				known = known.or(w.Scheduler.Known(instance))
			}
		}
	}
	return known
}

// SplitLearned divides what is kept of an upstream into what belongs to its server, in
// whatever folder it is used, and the values of the sessions of one folder. Behind the values
// the server's part is the whole again.
func SplitLearned(state []byte) (server, values []byte) {
	state, is := cutConcurrency(state)
	server, values = predict.Split(state)
	return append(server, concurrencyLine(is)...), values
}

// concurrencyLine is the last line of what is kept of an upstream, behind what the model
// keeps: what is sure in a word, else the evidence so far; nil: there is nothing to say.
func concurrencyLine(k Known) []byte {
	switch {
	case k.Is != Unknown:
		return []byte("concurrency: " + k.Is.String() + "\n")
	case k.Parallel+k.Serial > 0:
		return fmt.Appendf(nil, "concurrency: %.2f %.2f\n", k.Parallel, k.Serial)
	}
	return nil
}

// cutConcurrency takes that line off.
func cutConcurrency(stored []byte) (rest []byte, k Known) {
	at := bytes.LastIndexByte(bytes.TrimSuffix(stored, []byte{'\n'}), '\n') + 1
	said, is := strings.CutPrefix(string(stored[at:]), "concurrency: ")
	switch {
	case !is:
		return stored, Known{}
	case said == "serial\n":
		return stored[:at], believed(Serial)
	case said == "parallel\n":
		return stored[:at], believed(Parallel)
	}
	if _, err := fmt.Sscanf(said, "%g %g\n", &k.Parallel, &k.Serial); err != nil || !(k.Parallel >= 0 && k.Serial >= 0 && k.Parallel+k.Serial <= mostEvidence) {
		return stored, Known{} // no line of this: the model says that it cannot read it
	}
	return stored[:at], k
}
