package main

import (
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
	"mcpschedd/tools/dataset"
)

// session is a recorded session.
type session struct {
	ID    string
	Calls []call
	turns [][]int // turn → indexes of its calls
}

// call is one recorded call, and its answer.
type call struct {
	Tool      string
	Arguments json.RawMessage
	Text      string
	Failed    bool
	Key       string // of tool and arguments, independent of their formatting
	Reads     bool   // its tool is read-only
	Counts    bool   // it counts for coverage: a read that may be prefetched, and not a repeat
	Repeat    bool   // the session has made the same call before

	start, end *int64 // ms, as recorded
}

// keyOf returns equal keys for equal tools and arguments.
func keyOf(tool string, arguments []byte) string {
	canonical, ok := jsonrpc.AppendCanonical(nil, arguments)
	if !ok {
		canonical = arguments
	}
	return tool + " " + string(canonical)
}

// sessionsOf groups calls by session, and returns the first most sessions.
func sessionsOf(calls []replay.Call, most int, model func(tool string) *valuemodel.Model) []*session {
	var all []*session
	grouped := dataset.BySession(calls)
	for _, calls := range grouped[:min(most, len(grouped))] {
		s := &session{ID: calls[0].Session}
		seen := make(map[string]bool)
		for i, c := range calls {
			m, key := model(c.Tool), keyOf(c.Tool, c.Arguments)
			if i == 0 || calls[i-1].Batch != c.Batch {
				s.turns = append(s.turns, nil)
			}
			last := len(s.turns) - 1
			s.turns[last] = append(s.turns[last], i)
			reads := m.Class.Reads()
			s.Calls = append(s.Calls, call{
				Tool: c.Tool, Arguments: c.Arguments, Text: c.Text, Failed: c.Failed, Key: key, start: c.Start, end: c.End,
				Reads: reads, Repeat: seen[key], Counts: reads && m.Speculate != nil && *m.Speculate && !seen[key],
			})
			seen[key] = true
		}
		all = append(all, s)
	}
	return all
}

// step is a set of calls that are made together.
type step struct {
	pause time.Duration // since the last answer
	calls []int         // indexes in the session
}

// timetable returns the steps of a session. The pauses of a hasty client depend only on the
// session, so that all arms have the same ones.
func (s *session) timetable(p pauses) []step {
	turns := s.turns
	if p == inRow || p == atOnce {
		turns = s.joined()
	}
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	random := rand.New(rand.NewPCG(h.Sum64(), 0))
	var all []step
	for i, turn := range turns {
		var pause time.Duration
		switch {
		case i == 0:
			pause = think // until the client's processes have started
		case p == hasty:
			pause = 300*time.Millisecond + time.Duration(random.Int64N(int64(700*time.Millisecond)))
		default:
			pause = s.pause(turns[i-1], turn)
		}
		for _, calls := range s.together(turn, p) {
			all = append(all, step{pause, calls})
			pause = 0
		}
	}
	return all
}

// joined returns the turns of a client that makes reads of one kind together. If no turn of a
// recording has two calls, its client could not make several: then consecutive calls of one
// read-only tool count as a turn.
func (s *session) joined() [][]int {
	if len(s.turns) < len(s.Calls) {
		return s.turns
	}
	var all [][]int
	for i, c := range s.Calls {
		if i > 0 && c.Reads && s.Calls[i-1].Tool == c.Tool {
			all[len(all)-1] = append(all[len(all)-1], i)
		} else {
			all = append(all, []int{i})
		}
	}
	return all
}

// together returns the calls of a turn that are made together, in order.
func (s *session) together(turn []int, p pauses) [][]int {
	if p == recorded || p == hasty {
		return [][]int{turn}
	}
	var all [][]int
	for i, c := range turn {
		if p == atOnce && i > 0 && s.Calls[c].Reads && s.Calls[turn[i-1]].Reads {
			all[len(all)-1] = append(all[len(all)-1], c)
		} else {
			all = append(all, []int{c})
		}
	}
	return all
}

// pause returns the pause between two turns.
func (s *session) pause(before, turn []int) time.Duration {
	var ended, began *int64
	for _, c := range before {
		if e := s.Calls[c].end; e != nil && (ended == nil || *e > *ended) {
			ended = e
		}
	}
	for _, c := range turn {
		if b := s.Calls[c].start; b != nil && (began == nil || *b < *began) {
			began = b
		}
	}
	if ended == nil || began == nil {
		return think
	}
	return min(max(0, time.Duration(*began-*ended)*time.Millisecond), longest)
}

// trace returns the session as a recording with the times of the timetable, without prefetches.
func (s *session) trace(steps []step, c cell) []replay.Call {
	var all []replay.Call
	var now time.Duration
	for i, t := range steps {
		if i > 0 {
			now += t.pause
		}
		begin := now
		for n, index := range t.calls {
			end := begin + c.Takes
			if c.Serial {
				end += time.Duration(n) * c.Takes
			}
			of := &s.Calls[index]
			all = append(all, replay.Call{
				Session: s.ID, Seq: index, Batch: i, Start: new(begin.Milliseconds()), End: new(end.Milliseconds()),
				Tool: of.Tool, Arguments: of.Arguments, Text: of.Text, Bytes: len(of.Text), Failed: of.Failed,
			})
			now = max(now, end)
		}
	}
	return all
}
