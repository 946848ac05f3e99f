package deliver

import (
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec" // not its parent, which brings in every vocabulary
)

const (
	countedBytes = 1 << 20  // up to here every token is counted
	windows      = 16       // of a longer text that are counted
	windowBytes  = 16 << 10 // of each
	chunkBytes   = 512      // given to the tokenizer at a time
)

// vocabulary is o200k_base: what current models of several makers come closest to,
// where theirs is not published. It is not loaded before something is counted.
var vocabulary = sync.OnceValue(codec.NewO200kBase)

// Tokens is the number of tokens of a text: exact (o200k_base) up to 1 MiB, save
// one or two for each half KiB in which no word or number ends; beyond that an estimate
// from sixteen parts of 16 KiB spread evenly. Special tokens count as the text they
// are written in.
func Tokens(text []byte) int {
	if len(text) <= countedBytes {
		return count(string(text))
	}
	sum, seen := 0, 0
	for i := range windows {
		start := runeStart(text, i*(len(text)-windowBytes)/(windows-1))
		end := runeStart(text, min(start+windowBytes, len(text)))
		sum += count(string(text[start:end]))
		seen += end - start
	}
	return int(float64(sum) * float64(len(text)) / float64(seen))
}

// count counts piece by piece: the tokenizer's time grows with the square of a run
// of blank lines, of which 100 KB take it a quarter of a minute.
func count(text string) int {
	sum := 0
	for len(text) > 0 {
		end := wordEnd(text, chunkBytes)
		n, err := vocabulary().Count(text[:end])
		if err != nil {
			n = end // more than it can be
		}
		sum += n
		text = text[end:]
	}
	return sum
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
func runeStart[T string | []byte](text T, i int) int {
	for back := 0; back < utf8.UTFMax && i > 0 && i < len(text) && !utf8.RuneStart(text[i]); back++ {
		i--
	}
	return i
}
