package deliver

import (
	"sync"
	"unicode"
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

// Tokens is the number of tokens of a text: exact (o200k_base) up to 1 MiB, save
// one or two for each half KiB in which no word or number ends; beyond that an estimate
// from every second, third or later half KiB. Special tokens count as the text they
// are written in.
//
// It counts piece by piece because the tokenizer's time grows with the square of a
// run of blank lines, of which 100 KB take it a quarter of a minute.
func Tokens(text []byte) int {
	every := 1 + (len(text)-1)/countedBytes
	sum, counted := 0, 0
	rest := string(text)
	for i := 0; len(rest) > 0; i++ {
		end := wordEnd(rest, pieceBytes)
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

// wordEnd is the last place up to most, but in its second half, where a word or a
// number ends: the tokenizer always divides there, so nothing is counted twice.
// Where there is none it is any place between two characters.
func wordEnd(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	most = runeStart(text, most)
	next, _ := utf8.DecodeRuneInString(text[most:])
	for i := most; i > most/2; {
		r, size := utf8.DecodeLastRuneInString(text[:i])
		if inWord(r) && !inWord(next) && next != '\'' { // an apostrophe may go on: it's
			return i
		}
		next = r
		i -= size
	}
	return max(most, 1)
}

func inWord(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.N) }

// runeStart moves i back to where a character begins.
func runeStart(text string, i int) int {
	for back := 0; back < utf8.UTFMax && i > 0 && i < len(text) && !utf8.RuneStart(text[i]); back++ {
		i--
	}
	return i
}
