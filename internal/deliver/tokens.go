package deliver

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec" // the parent package links every vocabulary
)

const pieceBytes = 512 // bytes per call of the tokenizer

// vocabulary is o200k_base, the closest public vocabulary for models without a published one.
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
		n, err := vocabulary().Count(rest[:end])
		if err != nil {
			n = end // an upper bound
		}
		sum += n
		rest = rest[end:]
	}
	return sum
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
