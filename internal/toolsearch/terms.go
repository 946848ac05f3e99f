package toolsearch

import (
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"
)

// longestText is how many bytes of a text are read, and longestTerm how many of a word.
const (
	longestText = 4 << 10
	longestTerm = 40
)

// terms are the words of a text as they are compared: lower case, without accents, English
// ones cut to their stems, names in camelCase divided. Where a script writes no spaces, each
// two neighbouring letters are a term.
func terms(text string) (out []string) {
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "")
	}
	for _, run := range runsOf(folded(text)) {
		letters := []rune(run)
		switch {
		case !unspaced(letters[0]):
			if word := strings.ToLower(run); !stopWords()[word] && len(word) <= longestTerm {
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

// folded is a text without accents and with other forms of letters as their usual ones.
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

// withoutPaths is a query with "file" and its type, or "folder", in the place of each path: what
// a file is called says nothing of what is to be done with it.
func withoutPaths(query string) string {
	query = query[:min(len(query), longestText)]
	for word := range strings.FieldsSeq(query) {
		path := strings.Trim(word, "\"'`()[],;:.?!")
		if kind, isFile := fileType(path); isFile {
			query = strings.Replace(query, path, "file "+kind, 1)
		} else if len(path) > 1 && path[0] == '/' {
			query = strings.Replace(query, path, "folder", 1)
		}
	}
	return query
}

// fileType is the ending of a file's name, "md" of "notes.md"; a host and a version have none.
func fileType(path string) (kind string, ok bool) {
	at := strings.LastIndexByte(path, '.')
	if kind = path[at+1:]; at < 1 || len(kind) > 5 || strings.Contains(path, "://") || strings.HasPrefix(path, "www.") {
		return "", false
	}
	for _, r := range kind {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return "", false
		}
	}
	return kind, strings.ContainsFunc(kind, unicode.IsLetter)
}

// runsOf divides a text into runs of letters and digits: at anything else, where a capital
// follows a small letter or a digit, and where a script without spaces begins or ends.
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

// unspaced reports whether a letter is of a script that writes no spaces between words.
func unspaced(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// stem cuts an English word to what its forms share: of "searches", "searched" and
// "searching" that is "search". It is lighter than Porter's stemmer (1980), which makes one
// of words that names of tools keep apart.
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
	for _, s := range suffixes {
		if strings.HasSuffix(word, s) {
			return true
		}
	}
	return false
}

// single is a stem without the second of two equal letters at its end, as "plan" of
// "planning"; "fill" and "process" keep theirs.
func single(rest string) string {
	n := len(rest)
	if n > 3 && rest[n-1] == rest[n-2] && !strings.ContainsRune("lsz", rune(rest[n-1])) {
		return rest[:n-1]
	}
	return rest
}

// firstSentence is where a description says what its tool does, as far as that is short.
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
