package proxy

import "testing"

// Answers that two readers may interpret differently are equal only if their bytes are: one difference bars
// a tool that is read-only only by its server's annotations.
func TestAlike(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"content":[],"_meta":{"n":1}}`, `{"content":[]}`, true},
		{`{"structuredContent":{"a":1,"b":2}}`, `{"structuredContent":{"b":2, "a":1}}`, true},
		{`{"structuredContent":{"a":1}}`, `{"structuredContent":{"a":2}}`, false},
		{`{"structuredContent":{"a":1,"A":1}}`, `{"structuredContent":{"a":1,"A":1}}`, true},
		{`{"structuredContent":{"a":1,"A":1}}`, `{"structuredContent":{"a":1,"A":2}}`, false},
	} {
		if got := sameContent([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("%s and %s: got %t, want %t", c.a, c.b, got, c.want)
		}
	}
}
