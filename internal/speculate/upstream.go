package speculate

import (
	"log/slog"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// upstreams are what was learned of the upstreams. The worker's goroutine owns them.
type upstreams struct {
	log       *slog.Logger
	rules     func() *Rules
	scheduler *Scheduler
	faults    *faults
	tools     *learnedTools
	enqueue   func(do func())           // does something on the worker's goroutine
	byKey     map[string]*upstreamState // Upstream.Key →
}

// upstreamState is what is known of the calls to one upstream.
type upstreamState struct {
	model     *predict.Model
	rules     Rules               // it was made under
	storage   Storage             // never nil
	changed   bool                // something was seen since it was kept
	savedAt   time.Time           // when
	saving    chan saveResult     // has what came of keeping it, which is under way; nil: it is not
	saveAgain bool                // once that is done, it is to be kept once more
	at        *Upstream           // the lease of the session that is looked at
	instances map[uint64]struct{} // that sessions have called
}

// at is what is known of an upstream, read from where it is kept when it is first needed.
func (u *upstreams) at(up *Upstream) *upstreamState {
	rules := u.rules()
	o := u.byKey[up.Key]
	if o != nil && o.rules == *rules {
		o.at = up
		return o
	}
	old := o
	o = &upstreamState{rules: *rules, storage: up.Storage, at: up, instances: make(map[uint64]struct{})}
	if o.storage == nil {
		o.storage = InMemory()
	}
	o.model = predict.New(predict.Options{
		Tool: func(name string) predict.Tool { return o.at.Tool(name) }, Learn: rules.Learn, ShadowLabels: rules.ShadowLabels, MaxAge: rules.Age(up.Exclusive),
	})
	if old != nil { // its rules have changed; its sessions begin anew
		u.saveNow(old)
		o.instances, o.storage = old.instances, old.storage
		o.model.Works(old.model.Concurrency())
	}
	u.byKey[up.Key] = o
	u.saveNow(o)
	u.prove(o)
	for _, tool := range o.model.Seen() {
		u.publish(o, tool)
	}
	return o
}

// called notes a call to an instance. A new one is taken to work as the last one did.
func (u *upstreams) called(o *upstreamState, instance uint64) {
	o.changed = true
	if _, known := o.instances[instance]; !known {
		o.instances[instance] = struct{}{}
		u.scheduler.Presume(instance, fromStored(o.model.Concurrency()), o.usual())
	}
}

// took is how long a call took at its server, without what it waited there for others where
// calls are known to do so.
func (u *upstreams) took(r *Result, instance uint64) time.Duration {
	if r.Unloaded > 0 && u.scheduler.Known(instance).Is == Serial {
		return r.Unloaded
	}
	return r.Took
}

// left keeps what was seen of an instance that a session leaves, and forgets it if it ends.
func (u *upstreams) left(up *Upstream) {
	o := u.byKey[up.Key]
	if o != nil {
		o.recordConcurrency(u.scheduler.Known(up.Instance))
	}
	if up.Shared {
		return
	}
	if o != nil {
		delete(o.instances, up.Instance)
	}
	u.scheduler.RemoveInstance(up.Instance)
}

// usual is how long calls take, by tool, as far as that was learned.
func (o *upstreamState) usual() map[string]enrich.Percentiles {
	all := make(map[string]enrich.Percentiles)
	for _, tool := range o.model.Seen() {
		if u := o.model.Usual(tool); u.Latency.P50 > 0 {
			all[tool] = u.Latency
		}
	}
	return all
}

// saw notes how an instance works on several calls, if that is better known than before.
func (o *upstreamState) recordConcurrency(k Known) {
	if has := o.model.Concurrency(); k.Parallel+k.Serial >= has.Parallel+has.Serial {
		o.model.Works(k.toStored())
	}
}

// InMemory keeps what was learned for as long as the process lives.
func InMemory() Storage {
	var kept State
	return func(merge func(State) (State, error)) error {
		next, err := merge(kept)
		if err == nil {
			kept = next
		}
		return err
	}
}

// look says whether the upstream offers anything that may be run early, and has
// its calls left alone from now on if it does not.
func (o *upstreamState) checkTools() {
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
const minSaveInterval = 30 * time.Second

// forget drops what is known of upstreams that are there no more.
func (u *upstreams) forget(gone func(key string) bool) {
	for key, o := range u.byKey {
		if gone(key) {
			u.saveNow(o)
			delete(u.byKey, key)
			continue
		}
		u.prove(o) // the operator may have given their word for a tool
	}
	u.tools.forget(gone)
}

// keepNews keeps what was learned of every upstream, and waits for that if it is the last
// occasion.
func (u *upstreams) saveChanged(wait bool) {
	for _, o := range u.byKey {
		if o.changed {
			u.save(o)
		}
	}
	for _, o := range u.byKey {
		for wait && o.saving != nil {
			u.saved(o, <-o.saving)
		}
	}
}

// keepNow keeps what was learned of an upstream, and waits for that.
func (u *upstreams) saveNow(o *upstreamState) {
	u.save(o)
	for o.saving != nil {
		u.saved(o, <-o.saving)
	}
}

// keeping is what came of keeping what was learned.
type saveResult struct {
	model    *predict.Snapshot
	panicked bool
}

// keep joins what was learned of an upstream with what is stored, which other processes may
// have added to. That takes long, so it is done on a goroutine of its own: the worker goes on,
// and takes up what came of it when that is there. What is learned meanwhile is kept next time.
func (u *upstreams) save(o *upstreamState) {
	o.changed = true
	if o.saveAgain = o.saving != nil; o.saveAgain {
		return
	}
	o.changed, o.savedAt = false, time.Now()
	for instance := range o.instances {
		o.recordConcurrency(u.scheduler.Known(instance))
	}
	name, store := o.at.Name, o.storage
	k := saveResult{model: o.model.Snapshot()}
	done := make(chan saveResult, 1)
	o.saving = done
	go func() {
		k.panicked = !u.faults.protect(func() {
			err := store(func(stored State) (State, error) {
				next, err := k.model.Join(stored)
				if err != nil {
					u.log.Warn("learned state not read in full; what is left of it is used", "upstream", name, "err", err)
				}
				return next, nil
			})
			if err != nil {
				u.log.Warn("learned state not kept", "upstream", name, "err", err)
				return
			}
			k.model.Written()
		})
		done <- k
		u.enqueue(func() {
			select {
			case k := <-done:
				u.saved(o, k)
			default: // it was waited for
			}
		})
	}()
}

// kept takes up what came of keeping what was learned of an upstream. What cannot be read or
// written is no reason to stop learning.
func (u *upstreams) saved(o *upstreamState, k saveResult) {
	o.saving = nil
	o.model.Kept(k.model)
	u.prove(o)
	if k.panicked {
		o.storage = InMemory() // what was learned, its bars above all, still counts in this process
	}
	if o.saveAgain {
		u.save(o)
	}
}

// State is what is kept of an upstream, and LearnedVersion its version: what is of another one
// is not read.
type State = predict.State

const LearnedVersion = predict.StateVersion
