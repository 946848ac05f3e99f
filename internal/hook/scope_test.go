package hook_test

import (
	"testing"

	"mcpschedd/internal/hook"
)

// A call is within a directory only if neither its server nor a path in its arguments is outside.
func TestWithin(t *testing.T) {
	for call, want := range map[[2]string]bool{ // directory of the server, arguments
		{"", `{}`}:                               true,
		{"", `{"path":"/p"}`}:                    true,
		{"", `{"paths":["/p/a","/real/p/b"]}`}:   true,
		{"", `{"path":".","pattern":"a/b \"c"}`}: true,
		{"", `{"path":"/p2/a"}`}:                 false,
		{"", `{"paths":["/p/a","/q"]}`}:          false,
		{"", `{"path":"/p/../q"}`}:               false,
		{"", `{"path":"../q"}`}:                  false,
		{"", `{"uri":"file:///q"}`}:              false,
		{"", `{"path":"~/q"}`}:                   false,
		{"", `{"command":"ls -a /p/b c/d"}`}:     true,
		{"", `{"command":"ls /q"}`}:              false,
		{"", `{"path":"$HOME/q"}`}:               false,
		{"", `{"command":"ls --x=/q"}`}:          false,
		{"", `{"command":"ls b~/c ~root/q"}`}:    false,
		{"", `{"paths":"a\n/q"}`}:                false,
		{"", `{"command":"ls\t/q"}`}:             false,
		{"", `{"pattern":"**/*.go"}`}:            true,
		{"/real/p/sub", `{}`}:                    true,
		{"/real", `{}`}:                          false,
		{"/q", `{}`}:                             false,
	} {
		if got := hook.Within(call[0], call[1], "/p", "/real/p"); got != want {
			t.Errorf("%q: got %v, want %v", call, got, want)
		}
	}
}
