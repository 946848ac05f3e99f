package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/BurntSushi/toml"
)

// What tune writes it marks, so that it knows it again:
//
//	speculate = false # tune 3f2a91: 2 of 40 guesses used, 2026-07-01 to 2026-07-14
//
// The six digits are a sum over the tool, the key and the value. A value that has been
// changed since does not fit them any more, and is the user's from then on, as is one
// without a mark. A line that has been made a comment with its mark in place is one
// that the user does not want.
var (
	marked    = regexp.MustCompile(`^#[ \t]*tune ([0-9a-f]{6})(?::| advice:)`)
	advised   = regexp.MustCompile(`^#[ \t]*tune ([0-9a-f]{6}) advice: (.*)$`)
	switched  = regexp.MustCompile(`^#+[ \t]*([^# \t].*)# tune ([0-9a-f]{6}):`)
	markWidth = 33 // columns of a line before its mark, as in the configuration that comes with the program
)

// valueSum is what marks a value.
func valueSum(tool, key string, value any) string {
	h := sha256.Sum256([]byte(tool + "\x00" + key + "\x00" + canonical(value)))
	return hex.EncodeToString(h[:3])
}

// evidenceMark is the comment that tells how a value came about.
func evidenceMark(tool, key string, value any, evidence string) string {
	return strings.TrimSpace("# tune " + valueSum(tool, key, value) + ": " + oneLine(evidence))
}

// oneLine is a text that may stand in a comment: names of tools are part of it, and
// they may hold anything.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, " "))
	return strings.TrimSpace(s)
}

// canonical writes a decoded value in one way, however it was spelled: 4 and 4.0 are
// the same, and so are a [[table]] and an element in braces.
func canonical(v any) string {
	var b strings.Builder
	appendCanonical(&b, v)
	return b.String()
}

func appendCanonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case map[string]any:
		b.WriteByte('{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			b.WriteString(strconv.Quote(key))
			b.WriteByte(':')
			appendCanonical(b, v[key])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case []map[string]any:
		b.WriteByte('[')
		for _, e := range v {
			appendCanonical(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			appendCanonical(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case string:
		b.WriteString(strconv.Quote(v))
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			b.WriteString(strconv.FormatInt(int64(v), 10))
			return
		}
		b.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
	case time.Time:
		b.WriteString(v.Format(time.RFC3339Nano))
		b.WriteString(v.Location().String()) // a local one has none
	default:
		fmt.Fprint(b, v)
	}
}

// sameValue says whether two decoded values are.
func sameValue(a, b any) bool { return canonical(a) == canonical(b) }

// decodeValue reads one value of TOML, which must not be a line break away from being
// something else.
func decodeValue(value string) (any, error) {
	tree, err := decodeFile([]byte("x = " + value))
	switch {
	case err != nil:
		return nil, err
	case len(tree) != 1 || strings.ContainsAny(value, "\r\n"):
		return nil, fmt.Errorf("%s: want one value on one line", strconv.Quote(value))
	}
	return tree["x"], nil
}

// decodeFile reads a whole file.
func decodeFile(text []byte) (map[string]any, error) {
	tree := map[string]any{}
	_, err := toml.Decode(string(text), &tree)
	return tree, err
}

// owns reports whether the value of a line is as tune wrote it, and which of the
// comments says so.
func (d *tomlFile) owns(comments []extent, want string) (extent, bool) {
	for _, c := range comments {
		if m := marked.FindSubmatch(d.text[c.from:c.to]); m != nil && string(m[1]) == want {
			return c, true
		}
	}
	return extent{}, false
}

// switchedOff are the settings that the user has made comments: the decoded rest of their
// lines, by the sum of their marks.
func (d *tomlFile) switchedOff() map[string][]string {
	all := make(map[string][]string)
	for _, c := range d.comments {
		if m := switched.FindSubmatch(d.text[c.from:c.to]); m != nil {
			all[string(m[2])] = append(all[string(m[2])], strings.TrimSpace(string(m[1])))
		}
	}
	return all
}
