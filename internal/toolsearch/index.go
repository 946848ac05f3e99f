// Package toolsearch finds, among the tools of many servers, those that a request in plain
// words means.
//
// The one idea: a tool is a short document of a few fields, ranked by BM25F (Robertson and
// Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, section 3.6): how
// often a word stands in a field counts by the field's weight and length, and what all fields
// have saturates once. So a description that repeats words, or holds many, gains little. What
// agents did after earlier searches is counted, and counts beside it.
//
//	index := toolsearch.New(tools)
//	hits := index.Search("close the ticket", 5, session)
//	session.Searched("close the ticket", keys)
//	session.Called("tracker/close_issue") // the next search for that goes by it
//
// An Index never changes. What it is given of servers is text to compare and nothing else.
// It leaves out which tools a client may reach, and how a hit is shown.
package toolsearch

import (
	"math"
	"strings"
)

// Tool is what of a tool is searched.
type Tool struct {
	Key         string   // names it for life, as Hit does
	Name, Title string   // as its server has them
	Description string   // as its server has it
	Parameters  []string // names of its arguments
	Server      string   // its server's name
	About       string   // what the server says of itself: its title, its instructions
}

// Index is what tools are searched in.
type Index struct {
	tools   []Tool
	server  []int          // tool → its server, a number
	servers int            // how many there are
	ids     map[string]int // term → its place in postings
	terms   []string
	found   [][]posting    // term → the tools that have it
	weight  []float32      // term → how much it tells tools apart (idf)
	byKey   map[string]int // of a tool → its place
	alike   map[alike][]int
}

// posting is a tool that has a term: how much of it, saturated.
type posting struct {
	tool int32
	much float32
}

// alike is what unknown terms are compared within: the first letter and the length.
type alike struct {
	first byte
	size  int
}

// field is a part of a tool's text: its weight, and how far its length is held against it (b).
// The weights are about what names are worth beside descriptions in LiveMCPBench, in coarse
// steps; recall changes by some hundredths where they do.
type field struct {
	weight, b float64
	text      func(*Tool) string
}

var fields = []field{
	{3, 0.3, func(t *Tool) string { return t.Name + " " + t.Title }},
	{1, 0.5, func(t *Tool) string { return firstSentence(t.Description) }},
	{0.3, 0.7, func(t *Tool) string { return t.Description }},
	{0.4, 0.7, func(t *Tool) string { return strings.Join(t.Parameters[:min(len(t.Parameters), 64)], " ") }},
	{0.5, 0.3, func(t *Tool) string { return t.Server }},
	{0.4, 0.7, func(t *Tool) string { return t.About }},
}

// saturation is BM25's k1: a term that a tool has without end counts 1+k1 times as much as
// one it has once.
const saturation = 1.2

// New makes an index of the tools.
func New(tools []Tool) *Index {
	x := &Index{tools: tools, ids: make(map[string]int), byKey: make(map[string]int), alike: make(map[alike][]int)}
	parts, mean := x.divide()
	servers := make(map[string]int)
	for i := range tools {
		x.byKey[tools[i].Key] = i
		number, known := servers[tools[i].Server]
		if !known {
			number = len(servers)
			servers[tools[i].Server] = number
		}
		x.server = append(x.server, number)
		x.add(i, parts[i], mean)
	}
	x.servers = len(servers)
	for _, found := range x.found {
		n, all := float64(len(found)), float64(len(tools))
		x.weight = append(x.weight, float32(math.Log(1+(all-n+0.5)/(n+0.5))))
	}
	return x
}

// divide is the terms of each tool's fields, and the mean length of each field.
func (x *Index) divide() (parts [][][]string, mean []float64) {
	parts, mean = make([][][]string, len(x.tools)), make([]float64, len(fields))
	shared := make(map[string][]string) // what a server says stands with all of its tools
	for i := range x.tools {
		for f := range fields {
			text := fields[f].text(&x.tools[i])
			words, known := shared[text]
			if !known {
				words = terms(text)
				if f >= 4 {
					shared[text] = words
				}
			}
			parts[i] = append(parts[i], words)
			mean[f] += float64(len(words)) / float64(len(x.tools))
		}
	}
	return parts, mean
}

// add adds a tool's terms.
func (x *Index) add(tool int, parts [][]string, mean []float64) {
	much := make(map[string]float64)
	for f, words := range parts {
		if len(words) == 0 {
			continue
		}
		each := fields[f].weight / (1 - fields[f].b + fields[f].b*float64(len(words))/mean[f])
		for _, word := range words {
			much[word] += each
		}
	}
	for word, n := range much {
		id, known := x.ids[word]
		if !known {
			id = len(x.found)
			x.ids[word], x.terms, x.found = id, append(x.terms, word), append(x.found, nil)
			shape := alike{word[0], len(word)}
			x.alike[shape] = append(x.alike[shape], id)
		}
		x.found[id] = append(x.found[id], posting{int32(tool), float32(n * (saturation + 1) / (n + saturation))})
	}
}
