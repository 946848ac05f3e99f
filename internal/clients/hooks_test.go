package clients_test

import (
	"encoding/json"
	"os/exec"
	"testing"

	"mcpschedd/internal/clients"
)

// A hook that cannot run, and one that is run by a program that does not know it, let the
// client's edit be made.
func TestHookSettingsNeverBlock(t *testing.T) {
	for _, program := range []string{"/nowhere/it's/mcpschedd", "/bin/false"} {
		settings := clients.HookSettings([]string{program, "hook"})
		command := settings["PreToolUse"][0].Hooks[0].Command
		if out, err := exec.Command("sh", "-c", command).Output(); err != nil || len(out) > 0 {
			t.Errorf("%s: got %q, %v, want no output and exit code 0", command, out, err)
		}
	}
}

func TestHookSettingsShape(t *testing.T) {
	text, err := json.Marshal(clients.HookSettings([]string{"/opt/a b/mcpschedd", "hook", "--config", "/c.toml"})["Stop"])
	want := `[{"hooks":[{"type":"command","command":"'/opt/a b/mcpschedd' 'hook' '--config' '/c.toml' || true","timeout":5}]}]`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
}
