package deliver

import (
	"bytes"
	"strings"

	"mcpschedd/internal/jsonrpc"
)

// Content is what a model reads of a result. It refers to the result's bytes.
type Content struct {
	Bytes int // of texts, as they are written in JSON
	Media int // images and the like
	texts [][]byte
}

// MediaTokens is what an image costs at most with several makers of models; a client scales
// larger ones down.
const MediaTokens = 1600

// ContentOf finds the content of a result, a valid JSON text. Of what is structured there is a
// text too, save where a server leaves that out.
func ContentOf(result []byte) (c Content) {
	for block := range jsonrpc.Elements(jsonrpc.Get(result, "content")) {
		resource := jsonrpc.Get(block, "resource")
		switch text := jsonrpc.Get(block, "text"); {
		case text != nil:
			c.add(text)
		case jsonrpc.Get(resource, "text") != nil:
			c.add(jsonrpc.Get(resource, "text"))
		case jsonrpc.Get(block, "data") != nil || resource != nil:
			c.Media++
		default:
			c.add(block)
		}
	}
	if structured := jsonrpc.Get(result, "structuredContent"); len(c.texts) == 0 && structured != nil {
		c.add(structured)
	}
	return c
}

func (c *Content) add(text []byte) { c.texts, c.Bytes = append(c.texts, text), c.Bytes+len(text) }

// Sample is some of the texts of a content, or all of them, in bytes of its own.
type Sample struct {
	Bytes  int // of the content that it is
	pieces [][]byte
}

// A sample is the whole of a content that is not long, else pieces from all over it.
const (
	sampleBytes  = 8 << 10
	samplePieces = 8
)

// Sample copies a sample of the texts.
func (c *Content) Sample() (s Sample) {
	if c.Bytes <= sampleBytes {
		for _, text := range c.texts {
			s.add(text)
		}
		return s
	}
	next, before := 0, 0 // where the next piece begins; bytes of the texts before this one
	for _, text := range c.texts {
		for ; next < before+len(text); next += c.Bytes / samplePieces {
			from := next - before
			s.add(text[from:min(len(text), from+sampleBytes/samplePieces)])
		}
		before += len(text)
	}
	return s
}

func (s *Sample) add(piece []byte) {
	s.pieces, s.Bytes = append(s.pieces, bytes.Clone(piece)), s.Bytes+len(piece)
}

// Tokens counts those of the sample, which loads the vocabulary.
func (s *Sample) Tokens() (n int) {
	for _, piece := range s.pieces {
		n += Tokens(written(piece))
	}
	return n
}

// longestEscape is that of JSON, \uXXXX.
const longestEscape = 6

// written is the text of a piece of a JSON string, which may begin or end within an escape. What
// is no part of a string stays as it is.
func written(piece []byte) []byte {
	inner := strings.Trim(string(piece), `"`)
	for cut := range min(len(inner), longestEscape) {
		if text, ok := jsonrpc.String([]byte(`"` + inner[:len(inner)-cut] + `"`)); ok {
			return []byte(text)
		}
	}
	return piece
}
