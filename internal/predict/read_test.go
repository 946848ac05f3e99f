package predict_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name             string
		result           string
		cut              bool
		text, structured string
	}{
		{"one text", `{"content":[{"type":"text","text":"a\nb"}]}`, false, "a\nb", ""},
		{
			"texts with an image between them", `{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"},{"text":"b","type":"text"}]}`,
			false, "a\nb", "",
		},
		{"structured content alone", `{"content":[],"structuredContent":{"n":1}}`, false, "", `{"n":1}`},
		{"both, saying different things", `{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}`, false, "one", `{"n":1}`},
		{
			"both, saying the same", `{"content":[{"type":"text","text":"{\n  \"b\": \"\\u00e9\", \"n\": 1.0\n}"}],"structuredContent":{"n":1.0,"b":"é"}}`,
			false, "", `{"n":1.0,"b":"é"}`,
		},
		{"the same with a number in another form", `{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1.0}}`, false, "", `{"n":1.0}`},
		{"structured content that is null", `{"content":[{"type":"text","text":"a"}],"structuredContent":null}`, false, "a", ""},
		{"content that is no list", `{"content":{"type":"text","text":"a"}}`, false, "", ""},
		{"a block that is no object", `{"content":["a",1,null,{"type":"text","text":"b"}]}`, false, "b", ""},
		{"a text that is none", `{"content":[{"type":"text","text":7},{"type":"text"},{"type":"text","text":"b"}]}`, false, "b", ""},
		{"an embedded resource is not read", `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"c"}}]}`, false, "", ""},
		{"half a surrogate pair", `{"content":[{"type":"text","text":"a\ud800b"}]}`, false, "a\uFFFDb", ""},
		{"no result", `null`, false, "", ""},
		{"nothing", ``, false, "", ""},
		{"nothing, cut", ``, true, "", ""},
		{"no JSON", `<html>`, false, "", ""},
		{"no JSON, cut", `<html>`, true, "", ""},

		{"cut in the text", `{"content":[{"type":"text","text":"{\"n\":1,\"m`, true, `{"n":1,"m`, ""},
		{"cut in an escape", `{"content":[{"type":"text","text":"a\`, true, `a`, ""},
		{"cut in a long escape", `{"content":[{"type":"text","text":"a\u00e`, true, `a`, ""},
		{"cut between the halves of a pair", `{"content":[{"type":"text","text":"a\ud83d`, true, `a`, ""},
		{"cut in the other half of a pair", `{"content":[{"type":"text","text":"a\ud83d\ude0`, true, `a`, ""},
		{"cut behind half a pair that is none", `{"content":[{"type":"text","text":"a\ud83d.`, true, "a\uFFFD.", ""},
		{"cut in a character", "{\"content\":[{\"type\":\"text\",\"text\":\"a\xe2\x82", true, `a`, ""},
		{"cut right behind the text", `{"content":[{"type":"text","text":"ab"`, true, `ab`, ""},
		{"cut behind its block", `{"content":[{"type":"text","text":"ab"}`, true, `ab`, ""},
		{"cut in a later block", `{"content":[{"type":"text","text":"ab"},{"type":"text","text":"cd`, true, "ab\ncd", ""},
		{"cut in a block of another kind", `{"content":[{"type":"text","text":"ab"},{"type":"image","data":"aGk`, true, "ab", ""},
		{"cut before the type", `{"content":[{"text":"ab`, true, "", ""},
		{"cut in a name", `{"content":[{"type":"text","text":"ab"}],"struct`, true, "ab", ""},
		{"cut in what follows", `{"content":[{"type":"text","text":"ab"}],"structuredContent":{"n":1,"m":"x`, true, "ab", `{"n":1,"m":"x`},
		{"cut behind what is whole", `{"structuredContent":{"n":1},"content":[{"type":"text","text":"ab`, true, "ab", `{"n":1}`},
		{"cut in a list in what follows", `{"structuredContent":{"a":[{"n":1},{"n":2`, true, "", `{"a":[{"n":1},{`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, structured := predict.Read([]byte(test.result), test.cut)
			if string(text) != test.text || string(structured) != test.structured {
				t.Errorf("got %q and %q, want %q and %q", text, structured, test.text, test.structured)
			}
		})
	}
}

// However long a result is, what is read of it is not.
func TestReadIsBounded(t *testing.T) {
	block := `{"type":"text","text":"` + strings.Repeat(`é`, 100<<10) + `"},`
	result := []byte(`{"content":[` + strings.Repeat(block, 50) + `{"type":"text","text":"end"}]}`) // 10 MB
	for _, cut := range []bool{false, true} {
		text, _ := predict.Read(result, cut)
		if len(text) > predict.MostRead || len(text) < predict.MostRead-8 || !utf8.Valid(text) {
			t.Errorf("cut %v: got %d bytes, valid %v; want nearly %d, valid", cut, len(text), utf8.Valid(text), predict.MostRead)
		}
	}
}

// Of what is cut, what is read is the beginning of what the whole would give.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"a\u00e9\ud83d\ude00\n"}]}`,
		`{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`,
		`{"structuredContent":{"a":[1,{"b":"c"}]},"content":[{"text":"x","type":"text"},{"type":"text","text":"\\\\"}]}`,
		"{\"content\":[{\"type\":\"text\",\"text\":\"\xe2\x82\xac\"}]}",
		`[[[[{"content":"`, `{"content":[{"type":"text","text":"` + strings.Repeat(`\u`, 40),
	} {
		f.Add([]byte(s), uint16(20))
	}
	f.Fuzz(func(t *testing.T, result []byte, at uint16) {
		before := bytes.Clone(result)
		text, structured := predict.Read(result, false)
		if len(text) > predict.MostRead || len(structured) > len(result) {
			t.Fatalf("got %d and %d bytes of %d", len(text), len(structured), len(result))
		}
		cutText, cutStructured := predict.Read(result, true)
		if len(cutText) > predict.MostRead || !bytes.Contains(result, cutStructured) {
			t.Fatalf("cut: got %d bytes and %q", len(cutText), cutStructured)
		}
		if !bytes.Equal(before, result) {
			t.Fatal("the result was changed")
		}
		if !jsonrpc.Valid(result) || len(result) > predict.MostRead {
			return
		}
		// Structured content can make the text go away where only the whole of both is there.
		plain := jsonrpc.Delete(result, func(name []byte) bool { return string(name) == "structuredContent" })
		text, _ = predict.Read(plain, false)
		short, _ := predict.Read(plain[:int(at)%(len(plain)+1)], true)
		if !bytes.HasPrefix(text, short) {
			t.Errorf("of %q cut at %d: got %q, want the beginning of %q", plain, int(at)%(len(plain)+1), short, text)
		}
	})
}
