package predict_test

import (
	"fmt"
	"testing"
)

// A value that does not resemble the earlier values of an argument makes no candidate: a matched
// line is not a path, and a tool that was only given PDF files gets no archive.
func TestUnlikeValuesMakeNoCandidate(t *testing.T) {
	m := model()
	for i := range 20 {
		p := begin(t, m)
		path := fmt.Sprintf("docs/%d.pdf", i)
		p.call("list", fmt.Sprintf(`{"n":%d}`, 10+i), path)
		p.s.Candidates(p.now)
		p.call("pdf", `{"path":"`+path+`"}`, "x")
		p.s.End()
	}
	for value, want := range map[string]bool{"docs/new.pdf": true, "docs/new.tar.gz": false, "/docs/new.pdf": false, "docs/new:23.pdf": false} {
		p := begin(t, m)
		p.call("list", `{"n":5}`, value)
		if got := p.find("pdf", `{"path":"`+value+`"}`).P > 0; got != want {
			t.Errorf("%s: is a candidate: %v, want %v", value, got, want)
		}
	}
}
