package predict_test

import (
	"bytes"
	"strings"
	"testing"

	"mcpschedd/internal/predict"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name             string
		result           string
		text, structured string
	}{
		{"one text", `{"content":[{"type":"text","text":"a\nb"}]}`, "a\nb", ""},
		{
			"texts with an image between them", `{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"},{"text":"b","type":"text"}]}`,
			"a\nb", "",
		},
		{"structured content alone", `{"content":[],"structuredContent":{"n":1}}`, "", `{"n":1}`},
		{"both, saying different things", `{"content":[{"type":"text","text":"one"}],"structuredContent":{"n":1}}`, "one", `{"n":1}`},
		{
			"both, saying the same", `{"content":[{"type":"text","text":"{\n  \"b\": \"\\u00e9\", \"n\": 1.0\n}"}],"structuredContent":{"n":1.0,"b":"é"}}`,
			"", `{"n":1.0,"b":"é"}`,
		},
		{"the same with a number in another form", `{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1.0}}`, "", `{"n":1.0}`},
		{
			"text around the same", `{"content":[{"type":"text","text":"Found in a.go:\n{\"n\":1}\nSee b.go"}],"structuredContent":{"n":1}}`,
			"Found in a.go:\nSee b.go", `{"n":1}`,
		},
		{"structured content that is null", `{"content":[{"type":"text","text":"a"}],"structuredContent":null}`, "a", ""},
		{"content that is no list", `{"content":{"type":"text","text":"a"}}`, "", ""},
		{"a block that is no object", `{"content":["a",1,null,{"type":"text","text":"b"}]}`, "b", ""},
		{"a text that is none", `{"content":[{"type":"text","text":7},{"type":"text"},{"type":"text","text":"b"}]}`, "b", ""},
		{"an embedded resource is not read", `{"content":[{"type":"resource","resource":{"uri":"a:b","text":"c"}}]}`, "", ""},
		{"half a surrogate pair", `{"content":[{"type":"text","text":"a\ud800b"}]}`, "a\uFFFDb", ""},
		{"no result", `null`, "", ""},
		{"nothing", ``, "", ""},
		{"no JSON", `<html>`, "", ""},
		{"cut off", `{"content":[{"type":"text","text":"ab`, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := predict.Read([]byte(test.result), 0)
			if string(r.Text) != test.text || string(r.Structured) != test.structured {
				t.Errorf("got %q and %q, want %q and %q", r.Text, r.Structured, test.text, test.structured)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"a\u00e9\ud83d\ude00\n"}]}`,
		`{"content":[{"type":"text","text":"{\"n\":1}"}],"structuredContent":{"n":1}}`,
		`{"structuredContent":{"a":[1,{"b":"c"}]},"content":[{"text":"x","type":"text"},{"type":"text","text":"\\\\"}]}`,
		"{\"content\":[{\"type\":\"text\",\"text\":\"\xe2\x82\xac\"}]}",
		`[[[[{"content":"`, `{"content":[{"type":"text","text":"` + strings.Repeat(`\u`, 40),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		before := bytes.Clone(result)
		r := predict.Read(result, 0)
		if !bytes.Contains(result, r.Structured) {
			t.Fatalf("got %q", r.Structured)
		}
		if !bytes.Equal(before, result) {
			t.Fatal("the result was changed")
		}
	})
}
