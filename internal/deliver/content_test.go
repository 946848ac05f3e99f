package deliver_test

import (
	"math"
	"strings"
	"testing"

	"mcpschedd/internal/deliver"
	"mcpschedd/internal/jsonrpc"
)

func TestContentOf(t *testing.T) {
	for _, c := range []struct {
		name, result string
		bytes, media int
	}{
		{"texts", `{"content":[{"type":"text","text":"ab"},{"type":"text","text":"c\n"}]}`, 9, 0},
		{"beside what is structured", `{"content":[{"type":"text","text":"ab"}],"structuredContent":{"a":1}}`, 4, 0},
		{"only structured", `{"content":[],"structuredContent":{"a":1}}`, 7, 0},
		{"an image and a sound", `{"content":[{"type":"image","data":"AAAA"},{"type":"audio","data":"AAAA"}]}`, 0, 2},
		{"a resource", `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"abc"}}]}`, 5, 0},
		{"a binary resource", `{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"AAAA"}}]}`, 0, 1},
		{"a link", `{"content":[{"uri":"a:b"}]}`, 13, 0},
		{"nothing", `{}`, 0, 0},
		{"null", `null`, 0, 0},
		{"texts that are none", `{"content":[{"text":7},{"text":null},8]}`, 6, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := deliver.ContentOf([]byte(c.result))
			if got.Bytes != c.bytes || got.Media != c.media {
				t.Errorf("got %d bytes and %d media, want %d and %d", got.Bytes, got.Media, c.bytes, c.media)
			}
			if s := got.Sample(); s.Bytes != c.bytes {
				t.Errorf("got a sample of %d bytes, want all %d", s.Bytes, c.bytes)
			}
		})
	}
}

// A sample is short, is a copy, and estimates the whole, wherever its pieces are cut.
func TestSample(t *testing.T) {
	for name, line := range map[string]string{
		"code": "\tif err := f(\"a\\b\", 'x'); err != nil {\n", "letters": "Größe 東京 🙂 ", "quotes": `"""""`, "backslashes": `\\\\\`, "controls": "\x01\x02\x03", "indented": "            \"key\": [1, 2.5, null],\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(line, 300_000/len(line))
			var result []byte
			for _, part := range []string{text[:1000], text[1000:]} {
				result = append(append(append(result, `,{"text":`...), jsonrpc.AppendString(nil, strings.ToValidUTF8(part, ""))...), '}')
			}
			result = append(append([]byte(`{"content":[`), result[1:]...), "]}"...)
			c := deliver.ContentOf(result)
			s := c.Sample()
			clear(result)
			if s.Bytes > 20<<10 {
				t.Errorf("got a sample of %d bytes", s.Bytes)
			}
			got, want := float64(s.Tokens())*float64(c.Bytes)/float64(s.Bytes), float64(deliver.Tokens([]byte(text)))
			if math.Abs(got/want-1) > .05 {
				t.Errorf("got %.0f tokens, want about %.0f", got, want)
			}
		})
	}
}
