package predict

import "mcpschedd/internal/enrich"

// Usual is what calls of a tool were seen to take and to bring.
type Usual struct {
	Latency enrich.Spread // zero: not known
	Bytes   int           // of an answer, median; 0: not known
	Useful  float64       // share of answers that something was read off later; 0.5 where it is not known
}

// Usual is what is known of the calls of a tool.
func (f *Model) Usual(tool string) Usual {
	return Usual{Latency: spread(f.m.Latency, tool), Bytes: f.m.Size(tool, 0.5), Useful: f.m.Useful(tool)}
}

// Seen are the tools that calls were seen of, in no order.
func (f *Model) Seen() []string { return f.m.Tools() }
