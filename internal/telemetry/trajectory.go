package telemetry

import (
	"cmp"
	"container/list"
	"encoding/json"
	"io"
	"slices"

	"mcpschedd/internal/events"
)

// Trajectories writes each session as one JSON object on a line of its own: its turns
// with their calls, its prefetches and its plans, and what they add up to.
//
// The one idea: a session is held until nothing more can come of it. That is at the
// end of its process, or some lines after its own end, since what became of a prefetch
// is known later than that. What is held is bounded: of the sessions that began
// first, what is there is written, and marked as partial.
//
//	t := telemetry.NewTrajectories(w, 0)
//	err := events.Read(ctx, names, func(e *events.Event) { … t.Add(e) … }, bad)
//	err = t.Close()
//
// It leaves out arguments and results. Times are microseconds since 1970 where they
// end in _us, and milliseconds where they end in _ms.
type Trajectories struct {
	Cuts int64 // times that part of a session was written because too much was held

	out   *json.Encoder
	most  int64                                      // bytes that may be held
	held  int64                                      // bytes that are
	lines int64                                      // events so far
	open  map[string]map[string]*trajectory          // process → session → what is held of it
	order list.List                                  // of those, the first to begin in front
	ended []*trajectory                              // of those that ended: in that order
	names map[struct{ upstream, tool string }]string // → upstream/tool
}

// Of what is held.
const (
	heldBytes   = 16 << 20 // if the caller does not say otherwise
	heldLine    = 256      // bytes of a line without its texts, about
	lingerLines = 4096     // for so long an ended session is held
	namesKept   = 4096
	nameBytes   = 128 // of the longest that is
)

// NewTrajectories writes to w. It holds about that many bytes of sessions that have
// not ended; 0: 16 MiB.
func NewTrajectories(w io.Writer, held int64) *Trajectories {
	t := &Trajectories{
		out: json.NewEncoder(w), most: held,
		open:  make(map[string]map[string]*trajectory),
		names: make(map[struct{ upstream, tool string }]string),
	}
	if held <= 0 {
		t.most = heldBytes
	}
	t.out.SetEscapeHTML(false)
	return t
}

// Add takes the next event, of which it keeps nothing but texts. Its error is that of
// writing.
func (t *Trajectories) Add(e *events.Event) error {
	t.lines++
	if e.Kind == events.End && e.Session == "" {
		return t.processEnded(e.Process)
	}
	if e.Session != "" {
		t.take(e)
	}
	for len(t.ended) > 0 && t.lines-t.ended[0].endedAt > lingerLines {
		first := t.ended[0]
		t.ended[0], t.ended = nil, t.ended[1:]
		if err := t.finish(first); err != nil {
			return err
		}
	}
	for t.held > t.most && t.order.Len() > 0 {
		if err := t.cut(t.order.Front().Value.(*trajectory)); err != nil {
			return err
		}
	}
	return nil
}

// Close writes what is held, in the order in which it began. It does not close the
// writer.
func (t *Trajectories) Close() error {
	for front := t.order.Front(); front != nil; front = t.order.Front() {
		if err := t.finish(front.Value.(*trajectory)); err != nil {
			return err
		}
	}
	return nil
}

// take adds an event to its session.
func (t *Trajectories) take(e *events.Event) {
	var cost int64
	switch e.Kind {
	case events.Session:
		t.of(e).began(e)
		cost = int64(len(e.Client))
	case events.End:
		t.sessionEnded(e)
	case events.Call:
		cost = t.of(e).call(e, t.tool(e))
	case events.Prefetch:
		cost = t.of(e).prefetch(e, t.tool(e))
	case events.Plan:
		cost = t.of(e).plan(e)
	default:
		return // no part of a trajectory, and of no session that is not there
	}
	t.of(e).held += cost
	t.held += cost
}

// sessionEnded takes the end of a session, of which more may come to be known.
func (t *Trajectories) sessionEnded(e *events.Event) {
	s := t.of(e)
	s.happened(e)
	s.Open = false
	if s.endedAt == 0 {
		s.endedAt = t.lines
		t.ended = append(t.ended, s)
	}
}

// of is the session of an event.
func (t *Trajectories) of(e *events.Event) *trajectory {
	sessions := t.open[e.Process]
	if sessions == nil {
		sessions = make(map[string]*trajectory)
		t.open[e.Process] = sessions
	}
	s := sessions[e.Session]
	if s == nil {
		s = &trajectory{Session: e.Session, Process: e.Process, Open: true, Partial: e.Kind != events.Session}
		s.held = heldLine + int64(len(e.Session)+len(e.Process))
		s.place = t.order.PushBack(s)
		sessions[e.Session] = s
		t.held += s.held
	}
	return s
}

// tool is the name of an event's tool. The same name is the same text: a log has many
// lines and few tools.
func (t *Trajectories) tool(e *events.Event) string {
	key := struct{ upstream, tool string }{e.Upstream, e.Tool}
	if name, ok := t.names[key]; ok {
		return name
	}
	name := e.Tool
	if e.Upstream != "" {
		name = e.Upstream + "/" + e.Tool
	}
	if len(name) <= nameBytes {
		if len(t.names) >= namesKept {
			clear(t.names)
		}
		t.names[key] = name
	}
	return name
}

// processEnded writes what is held of a process, in the order in which it began.
func (t *Trajectories) processEnded(process string) error {
	var all []*trajectory
	for _, s := range t.open[process] {
		s.Open = false
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *trajectory) int {
		return cmp.Or(cmp.Compare(a.BeginUS, b.BeginUS), cmp.Compare(a.Session, b.Session))
	})
	for _, s := range all {
		if err := t.finish(s); err != nil {
			return err
		}
	}
	return nil
}

// finish writes a session and lets it go.
func (t *Trajectories) finish(s *trajectory) error {
	if s.place == nil {
		return nil // it has been
	}
	t.order.Remove(s.place)
	s.place = nil
	delete(t.open[s.Process], s.Session)
	if len(t.open[s.Process]) == 0 {
		delete(t.open, s.Process)
	}
	t.held -= s.held
	err := t.write(s)
	s.forget() // it may be among the ended ones for a while
	return err
}

// cut writes what is there of a session and lets that go. A session of which nothing
// has come since the last time is let go as a whole.
func (t *Trajectories) cut(s *trajectory) error {
	if s.empty() || s.endedAt != 0 {
		return t.finish(s)
	}
	s.Partial = true
	t.Cuts++
	if err := t.write(s); err != nil {
		return err
	}
	header := heldLine + int64(len(s.Session)+len(s.Process)+len(s.Client))
	t.held -= s.held - header
	s.held = header
	s.forget()
	t.order.MoveToBack(s.place)
	return nil
}

// write writes what is there of a session; nothing, if all of it has been.
func (t *Trajectories) write(s *trajectory) error {
	if s.empty() && s.written {
		return nil
	}
	s.written = true
	s.sum()
	return t.out.Encode(s)
}
