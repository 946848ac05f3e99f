package proxy_test

import (
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// What references read of a result: what is structured, else its text as JSON if it
// is some, else the text.
func TestPlanReadsResults(t *testing.T) {
	for name, c := range map[string]struct{ result, whole, text string }{
		"structured":          {`{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":1.0}}`, `{"a":1.0}`, `"x"`},
		"a file":              {`{"content":[{"type":"text","text":"done"},{"type":"resource","resource":{"uri":"f://a","text":"line\n"}}]}`, `{"text":"done","resources":[{"uri":"f://a","text":"line\n"}]}`, `"line\n"`},
		"two files":           {`{"content":[{"type":"resource","resource":{"uri":"f://a","text":"1"}},{"type":"resource","resource":{"uri":"f://b","text":"2"}}]}`, `{"text":"","resources":[{"uri":"f://a","text":"1"},{"uri":"f://b","text":"2"}]}`, `"{\"text\":\"\",\"resources\":[{\"uri\":\"f://a\",\"text\":\"1\"},{\"uri\":\"f://b\",\"text\":\"2\"}]}"`},
		"structured null":     {`{"content":[{"type":"text","text":"x"}],"structuredContent":null}`, `"x"`, `"x"`},
		"JSON":                {`{"content":[{"type":"text","text":" {\"n\":9007199254740993} "}]}`, `{"n":9007199254740993}`, `" {\"n\":9007199254740993} "`},
		"a number":            {`{"content":[{"type":"text","text":"1e400"}]}`, `1e400`, `"1e400"`},
		"a code with a zero":  {`{"content":[{"type":"text","text":"02134"}]}`, `"02134"`, `"02134"`},
		"text":                {`{"content":[{"type":"text","text":"[INFO] up"}]}`, `"[INFO] up"`, `"[INFO] up"`},
		"two texts":           {`{"content":[{"type":"text","text":"one"},{"type":"text","text":"{}"}]}`, `"one\n{}"`, `"one\n{}"`},
		"rows, a block each":  {`{"content":[{"type":"text","text":"{\"a\":1}"},{"type":"text","text":"{\"a\":2}"}]}`, `[{"a":1},{"a":2}]`, `"{\"a\":1}\n{\"a\":2}"`},
		"two numbers":         {`{"content":[{"type":"text","text":"1"},{"type":"text","text":"2"}]}`, `"1\n2"`, `"1\n2"`},
		"an image":            {`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, `""`, `""`},
		"nothing":             {`{"content":[]}`, `""`, `""`},
		"text beside a image": {`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"text","text":"seen"}]}`, `"seen"`, `"seen"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, up := remote(t, mcptest.Options{
				Name: "one", Results: map[string]string{"get": c.result},
				Tools: []string{
					`{"name":"get","inputSchema":{"type":"object"}}`,
					`{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`,
				},
			})
			o := options(up)
			o.Plans = proxy.Plans{Enabled: true, Mutations: "allow"}
			p := proxy.New(o, nil)
			t.Cleanup(p.Close)
			got := connect(t, p, handshake).plan(`{"steps":[
				{"id":"a","tool":"get"},
				{"id":"b","tool":"echo","arguments":{"any":{"$ref":"a#"},"text":{"$ref":"a#"}}}]}`)
			if string(got.Outputs["a"]) != c.whole {
				t.Errorf("got %s, want %s", got.Outputs["a"], c.whole)
			}
			if want := `{"name":"echo","arguments":{"any":` + c.whole + `,"text":` + c.text + `}}`; string(got.Outputs["b"]) != want {
				t.Errorf("got %s, want %s", got.Outputs["b"], want)
			}
		})
	}
}
