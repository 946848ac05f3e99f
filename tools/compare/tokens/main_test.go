package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	for _, tc := range []struct{ name, in, want, err string }{
		{"two texts", `"hello world" "hello"`, "2\n1\n", ""},
		{"empty and nothing", `""`, "0\n", ""},
		{"no text", ``, "", ""},
		{"a number", `"hello" 7`, "", "text 2"},
		{"half a text", `"hel`, "", "text 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			err := count(strings.NewReader(tc.in), &out)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if out.String() != tc.want {
				t.Errorf("got %q, want %q", out.String(), tc.want)
			}
		})
	}
}
