package excerpt_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/excerpt"
)

// Sixteen MiB of several shapes into two thousand tokens.
func BenchmarkCut(b *testing.B) {
	const size = 16 << 20
	row := `{"id":12345,"name":"some name of some length","tags":["a","b"],"ok":true},`
	rows := "[" + strings.Repeat(row, size/len(row)) + "1]"
	for _, c := range []struct{ name, value string }{
		{"rows", rows},
		{"text", `"` + strings.Repeat("some text ", size/10) + `"`},
		{"nested", strings.Repeat(`{"a":`, 30) + rows + strings.Repeat("}", 30)},
		{"chain", strings.Repeat("[", 9000) + rows + strings.Repeat("]", 9000)},
		{"numbers", "[" + strings.Repeat("1,", size/2) + "1]"},
		{"many rows of many", "[" + strings.Repeat("["+strings.Repeat("1,", 2000)+"1],", size/4003) + "1]"},
	} {
		b.Run(c.name, func(b *testing.B) {
			value := []byte(c.value)
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				excerpt.Cut(value, excerpt.Limit{Tokens: 2000, Chars: 100_000})
			}
		})
	}
}
