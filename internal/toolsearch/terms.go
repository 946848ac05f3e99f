package toolsearch

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// maxText is the number of bytes of a text that are read, maxTerm the maximum bytes of a word.
const (
	maxText = 4 << 10
	maxTerm = 40
)

// terms returns the words of a text in normal form: lower case, without accents, English words
// stemmed, camelCase names split. In scripts without spaces, each pair of adjacent letters is a
// term.
func terms(text string) (out []string) {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	for _, run := range runsOf(folded(text)) {
		letters := []rune(run)
		switch {
		case !unspaced(letters[0]):
			if word := strings.ToLower(run); !stopWords()[word] && len(word) <= maxTerm {
				out = append(out, stem(word))
			}
		case len(letters) == 1:
			out = append(out, run)
		default:
			for i := range len(letters) - 1 {
				out = append(out, string(letters[i:i+2]))
			}
		}
	}
	return out
}

// folded returns a text in compatibility form and without accents.
func folded(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		return text
	}
	out, _, err := transform.String(transform.Chain(norm.NFKD, runes.Remove(runes.In(unicode.Mn)), norm.NFC), text)
	if err != nil {
		return text
	}
	return out
}

var (
	word     = regexp.MustCompile("[^\\s\"'`()\\[\\],;!?]+")
	fileName = regexp.MustCompile(`^[^:]*[^:.]\.(\d{0,4}[a-zA-Z]\w{0,4})$`) // not a URL nor a version number
)

// domains are top-level domains: a name that ends with one is a website's and not a file's.
var domains = []string{"ai", "app", "com", "dev", "io", "net", "org"}

// withoutPaths replaces the path of a file in a query with "file" and its extension, and the absolute
// path of a folder with "folder": their names do not describe the task. The name of a website does, so
// that loses only its top-level domain.
func withoutPaths(query string) string {
	return word.ReplaceAllStringFunc(query[:min(len(query), maxText)], func(text string) string {
		path := strings.TrimRight(text, ".:")
		if m := fileName.FindStringSubmatch(path); m != nil && len(m[1]) <= 5 && !strings.HasPrefix(path, "www.") {
			if name := strings.TrimSuffix(path, "."+m[1]); slices.Contains(domains, strings.ToLower(m[1])) && !strings.ContainsAny(name, `/\@`) {
				return name
			}
			return "file " + m[1]
		}
		if len(path) > 1 && path[0] == '/' {
			return "folder"
		}
		return text
	})
}

// runsOf splits a text into runs of letters and digits. It splits at other characters, before
// an upper-case letter that follows any other character, and where a script without spaces begins or
// ends.
func runsOf(text string) (out []string) {
	begin, last := -1, rune(0)
	for i, r := range text {
		part := unicode.IsLetter(r) || unicode.IsDigit(r)
		if begin >= 0 && (!part || unicode.IsUpper(r) && !unicode.IsUpper(last) || unspaced(r) != unspaced(last)) {
			out, begin = append(out, text[begin:i]), -1
		}
		if part && begin < 0 {
			begin = i
		}
		last = r
	}
	if begin >= 0 {
		out = append(out, text[begin:])
	}
	return out
}

// unspaced reports whether a letter belongs to a script without spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// stem returns the common stem of an English word's forms: "search" for "searches", "searched"
// and "searching". It is weaker than Porter's stemmer (1980), which merges words that names of
// tools distinguish.
func stem(word string) string {
	switch {
	case len(word) > 4 && strings.HasSuffix(word, "ies"):
		word = word[:len(word)-3] + "y"
	case len(word) > 4 && hasAnySuffix(word, "sses", "xes", "ches", "shes", "zes"):
		word = word[:len(word)-2]
	case len(word) > 3 && strings.HasSuffix(word, "s") && !hasAnySuffix(word, "ss", "us", "is") && word != "news":
		word = word[:len(word)-1]
	}
	for _, suffix := range []string{"ing", "ed"} {
		if rest, found := strings.CutSuffix(word, suffix); found && len(rest) >= 3 && strings.ContainsAny(rest, "aeiouy") {
			word = single(rest)
			break
		}
	}
	switch {
	case len(word) >= 8 && strings.HasSuffix(word, "ation"):
		word = word[:len(word)-5]
	case len(word) >= 6 && strings.HasSuffix(word, "ion"):
		word = word[:len(word)-3]
	}
	if len(word) > 3 {
		word = strings.TrimSuffix(word, "e")
	}
	return word
}

func hasAnySuffix(word string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(word, s) })
}

// single removes the second of two equal letters at the end of a stem, as in "plan" of
// "planning"; "fill" and "process" keep both.
func single(rest string) string {
	n := len(rest)
	if n > 3 && rest[n-1] == rest[n-2] && !strings.ContainsRune("lsz", rune(rest[n-1])) {
		return rest[:n-1]
	}
	return rest
}

// firstSentence returns the first sentence of a description, at most about 300 bytes.
func firstSentence(text string) string {
	text = strings.TrimSpace(text)
	for i, r := range text {
		rest := text[i:]
		ends := r == '\n' || r == '。' || (r == '.' || r == '!' || r == '?') && (len(rest) == 1 || rest[1] == ' ' || rest[1] == '\n')
		if ends && i > 10 || i > 300 {
			return text[:i]
		}
	}
	return text
}
