package deliver

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec" // the parent package links every vocabulary

	"mcpschedd/internal/jsonrpc"
)

const pieceBytes = 512 // bytes per call of the tokenizer

// vocabulary is o200k_base, the closest public vocabulary for models whose own is not published.
// It is loaded at the first count.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Tokens returns the number of tokens of a text in o200k_base, accurate to one or two per 512
// bytes. Special tokens are counted as plain text.
//
// It counts the text in pieces because the tokenizer is quadratic in the length of a run of blank
// lines: 100 KB of them take 15 s.
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
		return len(piece) // an upper bound
	}
	return n
}

// pieceEnd returns the end of the first piece of a text: before a space in its second half, since
// most tokens begin with one, or else between two characters.
func pieceEnd(text string) int {
	if len(text) <= pieceBytes {
		return len(text)
	}
	if i := strings.LastIndexByte(text[:pieceBytes], ' '); i > pieceBytes/2 {
		return i
	}
	end := pieceBytes
	for end > pieceBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return end
}

// Content is the part of a result that a model reads. It refers to the result's bytes.
type Content struct {
	Bytes int // of texts, as JSON
	Media int // number of images and other media
	texts [][]byte
}

// MediaTokens is the maximum cost of an image for several model vendors; clients scale larger
// images down.
const MediaTokens = 1600

// ContentOf returns the content of a result, a valid JSON text. structuredContent counts only if
// there is no text, because servers usually send the same data as text.
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

// Sample is a copy of some or all texts of a content.
type Sample struct {
	Bytes  int // of the sampled texts
	pieces [][]byte
}

// A short content is sampled completely, a longer one in evenly spaced pieces, as the beginning
// of a text may be unlike the rest.
const (
	sampleBytes  = 8 << 10
	samplePieces = 8
)

// Sample returns a copy of a sample of the texts.
func (c *Content) Sample() (s Sample) {
	if c.Bytes <= sampleBytes {
		for _, text := range c.texts {
			s.add(text)
		}
		return s
	}
	next, before := 0, 0 // start of the next piece; bytes of earlier texts
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

// Tokens counts the tokens of the sample. It loads the vocabulary.
func (s *Sample) Tokens() (n int) {
	for _, piece := range s.pieces {
		n += Tokens(unescape(piece))
	}
	return n
}

// longestEscape is the length of \uXXXX.
const longestEscape = 6

// unescape returns the text of a piece of a JSON string, which may begin or end within an escape.
// A piece that is not part of a string is returned unchanged.
func unescape(piece []byte) []byte {
	inner := strings.Trim(string(piece), `"`)
	for cut := range min(len(inner), longestEscape) {
		if text, ok := jsonrpc.String([]byte(`"` + inner[:len(inner)-cut] + `"`)); ok {
			return []byte(text)
		}
	}
	return piece
}
