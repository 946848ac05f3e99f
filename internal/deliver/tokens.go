package deliver

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec" // not its parent, which brings in every vocabulary
)

const (
	countedBytes = 1 << 20 // up to here every token is counted
	pieceBytes   = 512     // given to the tokenizer at a time
)

// vocabulary is o200k_base: what current models of several makers come closest to,
// where their own is not published. It is not loaded before something is counted.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Tokens is the number of tokens of a text (o200k_base), give or take one or two for each
// half KiB; beyond 1 MiB it is an estimate from every second, third or later half KiB.
// Special tokens count as the text they are written in.
//
// It counts piece by piece because the tokenizer's time grows with the square of a
// run of blank lines, of which 100 KB take it a quarter of a minute.
func Tokens(text []byte) int {
	every := 1 + (len(text)-1)/countedBytes
	sum, counted := 0, 0
	rest := string(text)
	for i := 0; len(rest) > 0; i++ {
		end := pieceEnd(rest)
		if i%every == 0 {
			sum += count(rest[:end])
			counted += end
		}
		rest = rest[end:]
	}
	if every == 1 {
		return sum
	}
	return int(float64(sum) * float64(len(text)) / float64(counted))
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
