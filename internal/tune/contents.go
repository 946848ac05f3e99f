package tune

import (
	"io"
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// Bounds on what is taken from one call and its answer.
const (
	mostValues = 4096
	mostPlaces = 3   // at which one value is remembered
	mostDepth  = 12  // of JSON
	longest    = 300 // bytes of one value, as JSON
)

// contents are the values that a call and its answer hold: JSON → bindings that lead
// to it, elements of a list by the one that leads to all.
type contents struct {
	at    map[string][]way
	count int
}

func contentsOf(s *step) *contents {
	c := &contents{at: make(map[string][]way)}
	text := []byte(strings.TrimSpace(s.text))
	if jsonrpc.Valid(text) {
		c.scan(text, valuemodel.Result, nil, 0)
	} else if said := predict.Said(text); len(said) > 0 {
		c.scan(said, valuemodel.Text, nil, 0)
	}
	c.scan([]byte(s.args), valuemodel.Args, nil, 0)
	return c
}

// ways are the bindings that lead to a value. One digit, and true, stand everywhere.
func (c *contents) ways(name, value string) []way {
	all := c.at[value]
	if len(value) > 1 && value[0] != 't' && value[0] != 'f' && value[0] != 'n' {
		return slices.Clone(all)
	}
	i := slices.IndexFunc(all, func(w way) bool {
		p := w.binding.Path
		return w.binding.From == valuemodel.Args && len(p) == 1 && p[0].Name == name
	})
	if i < 0 {
		return nil
	}
	return []way{all[i]}
}

// scan remembers the values of a document, and of arguments the document's own parts
// as well, as they may be handed on whole.
func (c *contents) scan(v []byte, from valuemodel.From, path []valuemodel.Step, depth int) {
	if c.count++; c.count > mostValues || depth > mostDepth || len(v) == 0 {
		return
	}
	switch v[0] {
	case '{':
		for m := range jsonrpc.Members(v) {
			name := string(m.Name)
			if keyLike(name) {
				c.below(m.Value, from, path, depth+1)
				continue
			}
			c.scan(m.Value, from, append(slices.Clip(path), valuemodel.Step{Name: name}), depth+1)
		}
	case '[':
		for e := range jsonrpc.Elements(v) {
			c.scan(e, from, append(slices.Clip(path), valuemodel.Step{All: true}), depth+1)
		}
	default:
		c.add(v, from, path)
	}
}

// below remembers what stands in a member whose name is data: its own members, as
// those that are anywhere below the object that has it.
func (c *contents) below(v []byte, from valuemodel.From, path []valuemodel.Step, depth int) {
	for m := range jsonrpc.Members(v) {
		if name := string(m.Name); !keyLike(name) {
			c.scan(m.Value, from, append(slices.Clip(path), valuemodel.Step{Name: name, Deep: true}), depth+1)
		}
	}
}

func (c *contents) add(v []byte, from valuemodel.From, path []valuemodel.Step) {
	if len(v) > longest || string(v) == "null" || string(v) == `""` || len(path) == 0 {
		return
	}
	known := c.at[string(v)]
	if len(known) >= mostPlaces {
		return
	}
	w := wayOf(valuemodel.Binding{From: from, Path: path})
	if slices.ContainsFunc(known, func(o way) bool { return o.text == w.text }) {
		return
	}
	c.at[string(v)] = append(known, w)
}

// keyLike reports whether the name of a member looks like data and not like part of
// a structure.
func keyLike(name string) bool {
	digits := 0
	for i := range len(name) {
		if name[i] >= '0' && name[i] <= '9' {
			digits++
		}
	}
	return name == "" || digits > 1 || digits == len(name) || len(name) > 40 || strings.ContainsAny(name, "/ @")
}

func bytesOf(s string) io.Reader { return strings.NewReader(s) }
