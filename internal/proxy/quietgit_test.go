package proxy_test

import (
	"encoding/json"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/valuemodel"
)

// A look at a repository ends no stored answer.
func TestGitThatIsQuiet(t *testing.T) {
	up := child(t, mcptest.Options{Name: "one"})
	shell := valuemodel.Rule{Pattern: "one/pid", Source: "test", Layer: valuemodel.Layer{Classify: valuemodel.Shell}}
	c := connect(t, start(t, stored(t, []valuemodel.Rule{reading("one/echo", time.Hour), shell}, up)), handshake)
	c.call("pid", `{}`)

	tests := []struct {
		name, command string
		quiet         bool
	}{
		{"the status", "git status", true},
		{"in another folder", "git -C src log -p", true},
		{"a diff through head", "git diff | head -5", true},
		{"a write", "git add .", false},
		{"a setting of its own", "git -c core.fsmonitor=x status", false},
		{"a file to write", "git diff --output=x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			arguments, _ := json.Marshal(map[string]string{"command": tt.command})
			c.call("echo", `{"a":1}`)
			if how := disposition(t, c.call("echo", `{"a":1}`)); how != "hit" {
				t.Fatalf("before: got %s, want hit", how)
			}
			c.call("pid", string(arguments))
			want := "fetched"
			if tt.quiet {
				want = "hit"
			}
			if how := disposition(t, c.call("echo", `{"a":1}`)); how != want {
				t.Errorf("%s: got %s, want %s", tt.command, how, want)
			}
		})
	}
}
