package predict

import (
	"encoding/binary"
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
		out = append(out, l.rank(i).value.text)
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
			most = max(most, t.support.Now)
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

// WithoutTools is a state without what is known of tools, and the count of sessions.
func WithoutTools(s State) State {
	m := newState()
	if err := m.load(s); err != nil {
		panic(err)
	}
	clear(m.tools)
	m.sessions = 0
	return m.save()
}

// Learned is how many templates and weights there are.
func (m *Model) Learned() (templates, weights int) {
	return m.learned.kept, len(m.learned.weights.byFeature)
}

// Open is how many candidates await their label.
func (s *Session) Open() int { return s.pending.n }

// Remembered is how many calls a session waits for an answer to.
func Remembered(s *Session) int { return len(s.open) }

// Find is what a path leads to in an answer, whether there may be more, and how many
// nodes were looked at.
func Find(text []byte, path []valuemodel.Step) (found []string, cut bool, nodes int) {
	l := newAnswer(Result{Text: text}).resolve(nil, &binding{Binding: valuemodel.Binding{From: valuemodel.Result, Path: path}})
	for n := range l.nodes {
		found = append(found, string(l.raw(n)))
	}
	if l.document != nil {
		nodes = len(l.document.nodes)
	}
	return found, l.cut, nodes
}

// Said is what bindings of the text read of a text.
func Said(text []byte) []byte {
	out, _ := jsonrpc.AppendCanonical(nil, newAnswer(Result{Text: text}).textDocument().in)
	return out
}

// Bounds on what is read.
const (
	MaxNodes  = maxNodes
	MaxFound  = maxFound
	MaxEffort = maxEffort
	MostRead  = maxRead

	MaxWeights = maxWeights
)

// EffortLeft is what is left of the effort for the checks of the last answer.
func EffortLeft(m *Model) int { return m.checks.left }

// Checks is how many checks a model remembers.
func Checks(m *Model) int {
	if m.checks.known == nil {
		return 0
	}
	return m.checks.known.Len()
}

// Times is how often a session has made a call.
func (s *Session) Times(tool, arguments string) int { return s.times(callHash(tool, arguments)) }
