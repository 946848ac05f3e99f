package predict

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// List is the values under a path.
func (v *Values) List(path string) []string {
	var out []string
	l := v.at(path)
	for i := range l.size() {
		out = append(out, l.rank(i).value.text)
	}
	return out
}

// Len is how many values there are.
func (v *Values) Len() int { return v.count }

// Weight is how many calls the templates from a trigger to a target explained.
func (m *Learner) Weight(trigger, target string) float64 {
	most := float32(0)
	for _, t := range m.templates[trigger] {
		if t.target == target {
			most = max(most, t.support.now)
		}
	}
	return float64(most)
}

// Sessions is how many sessions were begun.
func (m *Learner) Sessions() uint64 { return uint64(m.sessions) }

// Line is a state of some records.
func Line(bodies ...string) []byte {
	var b bytes.Buffer
	for _, body := range bodies {
		fmt.Fprintf(&b, "%08x %s\n", crc32.ChecksumIEEE([]byte(body)), body)
	}
	return b.Bytes()
}

// Open is how many candidates await their label.
func (s *History) Open() int {
	n := 0
	for _, p := range s.waiting {
		n += len(p.samples)
	}
	return max(n, s.samples)
}

// Edge gives an edge a label.
func (m *Learner) Edge(trigger, target string) {
	n := edgeName{trigger, target}
	m.edge(n).label(m, n)
}
