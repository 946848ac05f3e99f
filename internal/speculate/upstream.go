package speculate

import (
	"log/slog"
	"time"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// upstreams holds the state learned of upstreams. The worker's goroutine owns it.
type upstreams struct {
	log       *slog.Logger
	rules     func() *Rules
	scheduler *Scheduler
	faults    *faults
	tools     *learnedTools
	enqueue   func(do func())           // runs a function on the worker's goroutine
	byKey     map[string]*upstreamState // by Upstream.Key
}

// upstreamState is the state learned of one upstream.
type upstreamState struct {
	model     *predict.Model
	rules     Rules               // under which model was made
	storage   Storage             // never nil
	changed   bool                // since the last save
	savedAt   time.Time           // time of the last save
	saving    chan saveResult     // receives the result of the save in progress; nil if none is
	saveAgain bool                // save again after the one in progress
	lease     *Upstream           // the lease of the session being handled
	instances map[uint64]struct{} // called by sessions
}

// state returns the state of an upstream, and loads it from storage if needed.
func (u *upstreams) state(up *Upstream) *upstreamState {
	rules := u.rules()
	o := u.byKey[up.Key]
	if o != nil && o.rules == *rules {
		o.lease = up
		return o
	}
	old := o
	o = &upstreamState{rules: *rules, storage: up.Storage, lease: up, instances: make(map[uint64]struct{})}
	if o.storage == nil {
		o.storage = InMemory()
	}
	o.model = predict.New(predict.Options{
		Tool: func(name string) predict.Tool { return o.lease.Tool(name) }, Learn: rules.Learn, ShadowLabels: rules.ShadowLabels, MaxAge: rules.Age(up.Exclusive),
	})
	if old != nil { // the rules have changed; its sessions start again
		u.saveNow(old)
		o.instances, o.storage = old.instances, old.storage
		o.model.SetConcurrency(old.model.Concurrency())
	}
	u.byKey[up.Key] = o
	u.saveNow(o)
	u.prove(o)
	for _, tool := range o.model.ObservedTools() {
		u.publish(o, tool)
	}
	return o
}

// called records a call to an instance. A new instance is presumed to work like the last one.
func (u *upstreams) called(o *upstreamState, instance uint64) {
	o.changed = true
	if _, known := o.instances[instance]; !known {
		o.instances[instance] = struct{}{}
		u.scheduler.Presume(instance, fromStored(o.model.Concurrency()), o.usual())
	}
}

// took returns the latency of a call, without its wait for other calls if the server is serial.
func (u *upstreams) took(r *Result, instance uint64) time.Duration {
	if r.Unloaded > 0 && u.scheduler.Known(instance).Is == Serial {
		return r.Unloaded
	}
	return r.Took
}

// left keeps the evidence of an instance that a session leaves, and removes the instance if it ends.
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

// usual returns the usual latency of tools, where known.
func (o *upstreamState) usual() map[string]enrich.Percentiles {
	all := make(map[string]enrich.Percentiles)
	for _, tool := range o.model.ObservedTools() {
		if u := o.model.Typical(tool); u.Latency.P50 > 0 {
			all[tool] = u.Latency
		}
	}
	return all
}

// recordConcurrency records the concurrency of an instance, if there is more evidence than before.
func (o *upstreamState) recordConcurrency(k Known) {
	if has := o.model.Concurrency(); k.Parallel+k.Serial >= has.Parallel+has.Serial {
		o.model.SetConcurrency(k.toStored())
	}
}

// InMemory keeps learned state for the lifetime of the process.
func InMemory() Storage {
	var state State
	return func(merge func(State) (State, error)) error {
		next, err := merge(state)
		if err == nil {
			state = next
		}
		return err
	}
}

// checkTools marks the upstream as useless if it offers no tool that may be prefetched.
func (o *upstreamState) checkTools() {
	tools := o.lease.Tools()
	for _, name := range tools {
		if m := o.lease.Tool(name).Model; m != nil && m.Speculate != nil && *m.Speculate && (m.Class.Reads() || m.Classify != "") {
			return
		}
	}
	o.lease.Useless()
}

// minSaveInterval is the minimum time between saves at the end of sessions. Anything unsaved is
// saved at shutdown.
const minSaveInterval = 30 * time.Second

// forget removes the upstreams that are no longer configured.
func (u *upstreams) forget(gone func(key string) bool) {
	for key, o := range u.byKey {
		if gone(key) {
			u.saveNow(o)
			delete(u.byKey, key)
			continue
		}
		u.prove(o) // the rules of its tools may have changed
	}
	u.tools.forget(gone)
}

// saveChanged saves every changed upstream, and waits for the saves if wait is set.
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

// saveNow saves an upstream and waits for it.
func (u *upstreams) saveNow(o *upstreamState) {
	u.save(o)
	for o.saving != nil {
		u.saved(o, <-o.saving)
	}
}

// saveResult is the result of a save.
type saveResult struct {
	model    *predict.Snapshot
	panicked bool
}

// save merges the learned state of an upstream into its storage, which other processes may have
// changed. As that may block, it runs on a goroutine of its own, and the worker handles the result
// when it is there. Changes made meanwhile are saved the next time.
func (u *upstreams) save(o *upstreamState) {
	o.changed = true
	if o.saveAgain = o.saving != nil; o.saveAgain {
		return
	}
	o.changed, o.savedAt = false, time.Now()
	for instance := range o.instances {
		o.recordConcurrency(u.scheduler.Known(instance))
	}
	name, store := o.lease.Name, o.storage
	k := saveResult{model: o.model.Snapshot()}
	done := make(chan saveResult, 1)
	o.saving = done
	go func() {
		k.panicked = !u.faults.protect(func() {
			err := store(func(stored State) (State, error) {
				next, err := k.model.Merge(stored)
				if err != nil {
					u.log.Warn("learned state not read in full; the readable part is used", "upstream", name, "err", err)
				}
				return next, nil
			})
			if err != nil {
				u.log.Warn("learned state not saved", "upstream", name, "err", err)
				return
			}
			k.model.MarkWritten()
		})
		done <- k
		u.enqueue(func() {
			select {
			case k := <-done:
				u.saved(o, k)
			default: // already handled
			}
		})
	}()
}

// saved handles the result of a save. An error in reading or writing does not stop learning.
func (u *upstreams) saved(o *upstreamState, k saveResult) {
	o.saving = nil
	o.model.Adopt(k.model)
	u.prove(o)
	if k.panicked {
		o.storage = InMemory() // the state, above all its bars, still counts in this process
	}
	if o.saveAgain {
		u.save(o)
	}
}

// State is the stored state of an upstream. State of another version than LearnedVersion is ignored.
type State = predict.State

const LearnedVersion = predict.StateVersion
