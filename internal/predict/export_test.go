package predict

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// Values is what is read out of an answer.
type Values = values

func Extract(content, structured []byte) *Values {
	return newAnswer(Result{Text: content, Structured: structured}).extract()
}

// List is the values under a path.
func (v *values) List(path string) []string {
	var out []string
	l := v.lookup(path)
	for i := range l.size() {
		out = append(out, l.rank(i).value.Text)
	}
	return out
}

// Len is how many values there are.
func (v *values) Len() int { return v.count }

// Weight is how many calls the templates from a trigger to a target explained.
func (m *Model) Weight(trigger, target string) float64 {
	most := float32(0)
	for _, t := range m.learned.templates[trigger] {
		if t.Target == target {
			most = max(most, t.Support)
		}
	}
	return float64(most)
}

// Unsealed is what stands in a part of a state behind its checksum.
func Unsealed(part []byte) []byte { return part[len(firstLine)+8:] }

// Sealed puts a right checksum before it.
func Sealed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint64(slices.Clip(firstLine), xxhash.Sum64(body)), body...)
}

// Same reports whether two states hold the same, but for what is known of tools.
func Same(a, b State) bool {
	x, y := newState(), newState()
	if err := errors.Join(x.load(a), y.load(b)); err != nil {
		panic(err)
	}
	clear(x.tools)
	clear(y.tools)
	return reflect.DeepEqual(x, y)
}

// Learned is how many templates and weights there are.
func (m *Model) Learned() (templates, weights int) {
	return m.learned.kept, len(m.learned.weights)
}

// Open is how many candidates await their label.
func (s *Session) Open() int { return s.pending.n }

// Remembered is how many calls a session waits for an answer to.
func Remembered(s *Session) int { return len(s.open) }

// Find is what a path leads to in an answer, and whether there may be more.
func Find(text []byte, path []valuemodel.Step) (found []string, cut bool) {
	l := newAnswer(Result{Text: text}).resolve(nil, &binding{Binding: valuemodel.Binding{From: valuemodel.Result, Path: path}})
	for _, f := range l.found {
		found = append(found, string(f.raw))
	}
	return found, l.left < 0 || len(l.found) == maxFound
}

// Said is what bindings of the text read of a text.
func Said(text []byte) []byte {
	out, _ := jsonrpc.AppendCanonical(nil, newAnswer(Result{Text: text}).text())
	return out
}

// Bounds on what is read.
const (
	MaxFound  = maxFound
	MaxEffort = maxEffort

	MaxWeights = maxWeights
)

// EffortLeft is what is left of the effort for the checks of the last answer.
func EffortLeft(m *Model) int { return m.effort }

// Checks is how many checks a model remembers.
func Checks(m *Model) int {
	if m.checks == nil {
		return 0
	}
	return m.checks.Len()
}

// Times is how often a session has made a call.
func (s *Session) Times(tool, arguments string) int { return s.times(callHash(tool, arguments)) }
