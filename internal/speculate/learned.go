package speculate

import (
	"maps"
	"sync"

	"mcpschedd/internal/enrich"
	"mcpschedd/internal/predict"
)

// learned is the state learned of one upstream. The worker's goroutine owns it.
type learned struct {
	model     *predict.Model
	storage   Storage                // never nil
	changed   bool                   // since the last save
	saving    chan *predict.Snapshot // receives the result of the save in progress; nil if none is
	saveAgain bool                   // save again after the one in progress
	lease     *Lease                 // the lease of the session being handled
}

// learnedOf returns what was learned of an upstream, and loads it from storage if needed.
func (w *Worker) learnedOf(lease *Lease) *learned {
	o := w.learned[lease.Key]
	fresh := o == nil
	if fresh {
		o = &learned{storage: lease.Storage}
		if o.storage == nil {
			o.storage = InMemory()
		}
		o.model = predict.New(predict.Options{Tool: func(name string) predict.Tool { return o.lease.Tool(name) }})
		w.learned[lease.Key] = o
	}
	o.lease = lease
	w.configure(o)
	if fresh {
		w.saveNow(o) // reads what is stored
		for _, tool := range o.model.ObservedTools() {
			w.publishUsual(o, tool)
		}
		w.Scheduler.PresumeConcurrency(lease.Key, o.model.Concurrency())
	}
	return o
}

// configure applies the rules, which may have changed.
func (w *Worker) configure(o *learned) {
	rules := w.Rules()
	o.model.Configure(rules.Learn, rules.ShadowLabels, rules.Age(o.lease.Exclusive))
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

// checkTools notes it at the upstream if none of its tools may be prefetched.
func (o *learned) checkTools() {
	for _, name := range o.lease.Tools() {
		if enrich.Speculatable(o.lease.Tool(name).Model) {
			return
		}
	}
	o.lease.NoteNothingToPrefetch()
}

// forgetRemoved removes the upstreams that are no longer configured.
func (w *Worker) forgetRemoved() {
	for key, o := range w.learned {
		if w.Removed(key) {
			w.saveNow(o)
			delete(w.learned, key)
			continue
		}
		w.configure(o) // before it says which tools are proven
		w.updateProven(o)
	}
	w.published.mu.Lock()
	defer w.published.mu.Unlock()
	maps.DeleteFunc(w.published.byTool, func(key toolKey, _ ToolState) bool { return w.Removed(key.upstream) })
}

// saveChanged saves every changed upstream, and waits for the saves if wait is set.
func (w *Worker) saveChanged(wait bool) {
	for _, o := range w.learned {
		if o.changed {
			w.save(o)
		}
	}
	for _, o := range w.learned {
		for wait && o.saving != nil {
			w.saved(o, <-o.saving)
		}
	}
}

// saveNow saves an upstream and waits for it.
func (w *Worker) saveNow(o *learned) {
	w.save(o)
	for o.saving != nil {
		w.saved(o, <-o.saving)
	}
}

// save merges the learned state of an upstream into its storage, which other processes may have
// changed. As that may block, it runs on a goroutine of its own, and the worker handles the result
// when it is there. Changes made meanwhile are saved the next time.
func (w *Worker) save(o *learned) {
	o.changed = true
	if o.saveAgain = o.saving != nil; o.saveAgain {
		return
	}
	o.changed = false
	if _, evidence := w.Scheduler.Concurrency(o.lease.Key); evidence != (predict.ConcurrencyEvidence{}) {
		o.model.SetConcurrency(evidence)
	}
	name, store, model := o.lease.Name, o.storage, o.model.Snapshot()
	done := make(chan *predict.Snapshot, 1)
	o.saving = done
	go func() {
		w.Protect(func() {
			err := store(func(stored State) (State, error) {
				next, err := model.Merge(stored)
				if err != nil {
					w.Log.Warn("learned state read in part", "upstream", name, "err", err)
				}
				return next, nil
			})
			if err != nil {
				w.Log.Warn("learned state not saved", "upstream", name, "err", err)
				return
			}
			model.MarkWritten()
		})
		done <- model
		w.queue.add(task{required: true, do: func() {
			select {
			case model := <-done:
				w.saved(o, model)
			default: // already handled
			}
		}})
	}()
}

// saved handles the result of a save. An error in reading or writing does not stop learning.
func (w *Worker) saved(o *learned, model *predict.Snapshot) {
	o.saving = nil
	o.model.Adopt(model)
	w.updateProven(o)
	if o.saveAgain {
		w.save(o)
	}
}

// published is what was learned of tools and is read outside the worker: by calls, plans and the record.
type published struct {
	mu     sync.RWMutex
	byTool map[toolKey]ToolState
}

type toolKey struct{ upstream, tool string } // upstream is Lease.Key

// ToolState is what was learned of one tool.
type ToolState struct {
	Barred     bool            // must not be prefetched again, or not by this process
	Proven     bool            // comparisons have confirmed its read-only hint
	Usual      predict.Typical // latency and size of its calls; zero if unknown
	barredHere bool            // barred by a prefetch of this process, whatever the model says
}

// Tool returns what was learned of a tool of the upstream with that key.
func (w *Worker) Tool(key, name string) ToolState {
	w.published.mu.RLock()
	defer w.published.mu.RUnlock()
	return w.published.byTool[toolKey{key, name}]
}

// updateTool changes the state of a tool.
func (w *Worker) updateTool(key, name string, change func(*ToolState)) {
	w.published.mu.Lock()
	defer w.published.mu.Unlock()
	known := w.published.byTool[toolKey{key, name}]
	if change(&known); known == (ToolState{}) {
		delete(w.published.byTool, toolKey{key, name})
	} else {
		w.published.byTool[toolKey{key, name}] = known
	}
}

// barHere bars a tool at once, on any goroutine, as its bar may reach the model later or never.
func (w *Worker) barHere(key, name string) {
	w.updateTool(key, name, func(t *ToolState) { t.Barred, t.barredHere = true, true })
}

// publishUsual updates a tool's usual latency and size from the model. Tools that the model has no space
// for are not known here either.
func (w *Worker) publishUsual(o *learned, tool string) {
	if usual := o.model.Typical(tool); usual.Latency.P50 > 0 {
		w.updateTool(o.lease.Key, tool, func(t *ToolState) { t.Usual = usual })
	}
}

// updateProven updates which tools of an upstream are barred or proven: the listed tools and others.
func (w *Worker) updateProven(o *learned, others ...string) {
	proven := o.model.ProvenReadOnly()
	for _, name := range append(o.lease.Tools(), others...) {
		w.updateTool(o.lease.Key, name, func(t *ToolState) {
			t.Barred = t.barredHere || o.model.Barred(name) != "" // the operator's rules may have lifted the model's bar
			t.Proven = proven(name) && !t.Barred
		})
	}
}
