package predict

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"

	"mcpschedd/internal/valuemodel"
)

// Values are the values extracted from a result.
type Values = values

func Extract(content, structured []byte) *Values {
	return newAnswer(Result{Text: content, Structured: structured}).extract()
}

// List returns the values under a path.
func (v *values) List(path string) []string {
	var out []string
	l := v.lookup(path)
	for i := range l.size() {
		out = append(out, l.rank(i).value.Text)
	}
	return out
}

// Len returns the number of values.
func (v *values) Len() int { return v.count }

// Weight returns how many calls the templates from a trigger to a target explained.
func (m *Model) Weight(trigger, target string) float64 {
	most := float32(0)
	for _, t := range m.learned.templates[trigger] {
		if t.Target == target {
			most = max(most, t.Support)
		}
	}
	return float64(most)
}

// Unsealed returns a part of a state without its version and checksum.
func Unsealed(part []byte) []byte { return part[len(firstLine)+8:] }

// Sealed adds the version and the checksum.
func Sealed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint64(slices.Clip(firstLine), xxhash.Sum64(body)), body...)
}

// Same reports whether two states are equal except for the statistics of tools.
func Same(a, b State) bool {
	x, y := newState(), newState()
	if err := errors.Join(x.load(a), y.load(b)); err != nil {
		panic(err)
	}
	clear(x.tools)
	clear(y.tools)
	return reflect.DeepEqual(x, y)
}

// Learned returns the number of templates and of weights.
func (m *Model) Learned() (templates, weights int) {
	return m.learned.kept, len(m.learned.weights)
}

// Open returns the number of candidates without a label.
func (s *Session) Open() int { return s.pending.n }

// Remembered returns the number of calls of a session that have no result yet.
func Remembered(s *Session) int { return len(s.open) }

// Find returns the values that a path leads to in a JSON text. cut says that there may be more.
func Find(text []byte, path []valuemodel.Step) (found []string, cut bool) {
	l := newAnswer(Result{Text: text}).resolve(nil, &binding{Binding: valuemodel.Binding{From: valuemodel.Result, Path: path}})
	for _, f := range l.found {
		found = append(found, string(f.raw))
	}
	return found, l.left < 0 || len(l.found) == maxFound
}

// Bounds of the package.
const (
	MaxFound   = maxFound
	MaxWeights = maxWeights
)

// Times returns how often a session has made a call.
func (s *Session) Times(tool, arguments string) int { return s.times(callHash(tool, arguments)) }
