package deliver

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec" // not its parent, which brings in every vocabulary

	"mcpschedd/internal/jsonrpc"
)

const pieceBytes = 512 // given to the tokenizer at a time

// vocabulary is o200k_base: what current models of several makers come closest to,
// where their own is not published. It is not loaded before something is counted.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Tokens is the number of tokens of a text (o200k_base), give or take one or two for each
// half KiB. Special tokens count as the text they are written in.
//
// It counts piece by piece because the tokenizer's time grows with the square of a
// run of blank lines, of which 100 KB take it a quarter of a minute.
func Tokens(text []byte) (sum int) {
	for rest := string(text); len(rest) > 0; {
		end := pieceEnd(rest)
		sum += count(rest[:end])
		rest = rest[end:]
	}
	return sum
}

func count(piece string) int {
	n, err := vocabulary().Count(piece)
	if err != nil {
		return len(piece) // more than it can be
	}
	return n
}

// pieceEnd is where the first piece of a text ends: before a space, where there is one
// late in it, since most tokens begin with one, else between two characters.
func pieceEnd(text string) int {
	if len(text) <= pieceBytes {
		return len(text)
	}
	if i := strings.LastIndexByte(text[:pieceBytes], ' '); i > pieceBytes/2 {
		return i
	}
	return max(runeStart(text, pieceBytes), 1)
}

// runeStart moves i back to where a character begins.
func runeStart(text string, i int) int {
	for back := 0; back < utf8.UTFMax && i > 0 && i < len(text) && !utf8.RuneStart(text[i]); back++ {
		i--
	}
	return i
}

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
