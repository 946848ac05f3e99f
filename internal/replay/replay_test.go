package replay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/replay"
)

func class(tool string) replay.Class {
	if strings.HasPrefix(tool, "get") || strings.HasPrefix(tool, "list") {
		return replay.Read
	}
	return replay.Write
}

// trace is sessions in which the first item of a list is looked at next; between
// the two, if between is set, something is written.
func trace(sessions int, between bool) []replay.Call {
	var calls []replay.Call
	for s := range sessions {
		turn := 0
		add := func(tool, arguments, text string) {
			calls = append(calls, replay.Call{
				Dataset: "made up", Session: fmt.Sprint(s), Seq: turn, Batch: turn, Tool: tool,
				Arguments: json.RawMessage(arguments), Text: text, Bytes: len(text),
			})
			turn++
		}
		add("list_items", fmt.Sprintf(`{"page":"p%d"}`, s), fmt.Sprintf(`{"items":[{"id":"a%d"},{"id":"b%d"}]}`, s, s))
		if between {
			add("write_item", fmt.Sprintf(`{"n":%d}`, s), "done")
		}
		add("get_item", fmt.Sprintf(`{"id":"a%d"}`, s), "{}")
	}
	return calls
}

func run(calls []replay.Call) replay.Report {
	m := predict.New(predict.Options{Target: func(tool string) bool { return class(tool) == replay.Read }})
	return replay.Run(m, calls, replay.Rules{Class: class, KeepTurns: 10, Gates: []float64{0.5}})
}

func TestRun(t *testing.T) {
	rep := run(trace(40, false))
	if rep.Sessions != 40 || rep.Calls != 80 || rep.Reads != 80 || rep.Repeats != 0 {
		t.Errorf("got %d sessions, %d calls, %d reads, %d repeats", rep.Sessions, rep.Calls, rep.Reads, rep.Repeats)
	}
	p := rep.Points[0]
	if p.Used < 30 || p.Used > 40 || p.Accuracy() < 0.9 {
		t.Errorf("got %d used of %d issued: what always follows was not learned", p.Used, p.Issued)
	}
}

// Calls made together do not follow each other: nothing of a turn is predicted from
// a result of the same turn.
func TestSameTurn(t *testing.T) {
	calls := trace(40, false)
	for i := range calls {
		calls[i].Batch = 0
	}
	if p := run(calls).Points[0]; p.Used != 0 {
		t.Errorf("got %d used of %d issued, want none", p.Used, p.Issued)
	}
}

func TestReadTrace(t *testing.T) {
	calls, err := replay.ReadTrace(strings.NewReader(`{"session":"s","batch":1,"tool":"get","arguments":{"n":9007199254740993}}` + "\n"))
	if err != nil || len(calls) != 1 || string(calls[0].Arguments) != `{"n":9007199254740993}` {
		t.Errorf("got %v, %v", calls, err)
	}
	if _, err := replay.ReadTrace(strings.NewReader("{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "2") {
		t.Errorf("got %v, want an error that names line 2", err)
	}
}
