package clients_test

import (
	"encoding/json"
	"os/exec"
	"strings"
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

// The hooks stand behind what is there; taken out again, nothing of them is left, and the rest is
// as it was to the byte, but for a comma behind the last one.
func TestHooksGoInAndOut(t *testing.T) {
	own := clients.HookSettings([]string{"/opt/mcpschedd-small", "hook"})
	for name, text := range map[string]string{
		"nothing":           "",
		"other settings":    "{\n  \"model\": \"x\" // mine\n}\n",
		"trailing commas":   "{\n  \"model\": \"x\",\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}, // loud\n    ],\n  },\n}\n",
		"hooks of the user": "{\r\n  \"hooks\": {\r\n    \"PreToolUse\": [\r\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mcpschedd-like\"}]}\r\n    ]\r\n  },\r\n  \"z\": 1\r\n}\r\n",
		"an event without":  `{"hooks": {"Notification": []}}`,
		"null":              `{"hooks": null}`,
	} {
		t.Run(name, func(t *testing.T) {
			with, err := clients.WithHooks("/s.json", []byte(text), own)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(with), "mcpschedd-small' 'hook'"); n != len(own) || json.Valid([]byte(text)) && !json.Valid(with) {
				t.Errorf("got %d hooks, want %d, in\n%s", n, len(own), with)
			}
			if again, err := clients.WithHooks("/s.json", with, own); err != nil || string(again) != string(with) {
				t.Errorf("once more: got\n%s, %v, want\n%s", again, err, with)
			}
			if none, err := clients.WithHooks("/s.json", []byte(text), nil); err != nil || string(none) != text {
				t.Errorf("none out: got\n%s, %v", none, err)
			}
			without, err := clients.WithHooks("/s.json", with, nil)
			if err != nil || strings.Contains(string(without), "'hook'") {
				t.Errorf("without them: got\n%s, %v", without, err)
			}
			if want := strings.Replace(text, `"hooks": null`, "", 1); name != "nothing" && string(without) != want && name != "trailing commas" {
				t.Errorf("without them: got\n%q\nwant\n%q", without, want)
			}
		})
	}
	for _, bad := range []string{`{"hooks": 1}`, `{"hooks": {"Stop": {}}}`, `{`, `[]`} {
		if text, err := clients.WithHooks("/s.json", []byte(bad), own); err == nil {
			t.Errorf("%s: got %s", bad, text)
		}
	}
}
