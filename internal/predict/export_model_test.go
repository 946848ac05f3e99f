package predict

import "mcpschedd/internal/valuemodel"

// Remembered is how many calls a session waits for an answer to.
func Remembered(s *Session) int { return max(len(s.open), len(s.order)) }

// Find is what a path leads to in a valid document, whether there may be more, and
// how many nodes were looked at, of how many bytes.
func Find(json []byte, path []valuemodel.Step) (found []string, cut bool, visited, scanned int) {
	w := walk{}
	w.down(json, path)
	for _, v := range w.found {
		found = append(found, string(v.raw))
	}
	return found, w.cut, w.visited, w.scanned
}

// FindWhole is what a path leads to in what is whole of the beginning of a
// document; false if it is no such beginning.
func FindWhole(beginning []byte, path []valuemodel.Step) (found []string, ok bool) {
	in := source{answer: Result{Text: beginning}}
	d := in.of(valuemodel.Result)
	values, _ := find(d, path)
	for _, v := range values {
		found = append(found, string(v.raw))
	}
	return found, d.cut
}

var Mend = mend

// Bounds on the work for one binding.
const (
	MaxVisited = maxVisited
	MaxScanned = maxScanned
	MaxFound   = maxFound
	MaxDepth   = maxDepth
	MostRead   = mostRead
)

// Configured is how many calls are configured to follow a call with that answer.
func Configured(f *Model, tool, arguments string, answer []byte) int {
	out, _ := f.follow(trigger{tool, arguments}, Result{Text: answer}, true)
	return len(out)
}

// Verdicts is how many arguments a forecast remembers to have checked, and their
// bytes.
func Verdicts(f *Model) (n, bytes int) {
	for k := range f.checked.known {
		bytes += len(k.arguments)
	}
	return len(f.checked.known), bytes
}

// MaxEffort is for all checks of one answer.
const MaxEffort = maxEffort

// EffortLeft is what is left of it, of the last answer.
func EffortLeft(f *Model) int { return f.checked.left }
