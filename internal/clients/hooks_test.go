package clients_test

import (
	"cmp"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"mcpschedd/internal/clients"
)

// hookCommand returns the command of the hook for an event in a new settings file.
func hookCommand(t *testing.T, event string, line []string) string {
	t.Helper()
	text, err := clients.WithHooks("/s.json", nil, line)
	if err != nil {
		t.Fatal(err)
	}
	var settings struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Type, Command string
				Timeout       int
			}
		}
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	hook := settings.Hooks[event][0].Hooks[0]
	if hook.Type != "command" || hook.Timeout != 5 {
		t.Errorf("got %+v, want a command with 5 s", hook)
	}
	return hook.Command
}

// If a hook's program is missing, or does not know the command hook, the client's edit is made
// nevertheless.
func TestHooksNeverBlock(t *testing.T) {
	for _, program := range []string{"/nowhere/it's/mcpschedd", "/bin/false"} {
		command := hookCommand(t, "PreToolUse", []string{program, "hook"})
		if out, err := exec.Command("sh", "-c", command).Output(); err != nil || len(out) > 0 {
			t.Errorf("%s: got %q, %v, want no output and exit code 0", command, out, err)
		}
	}
}

func TestHooksCommand(t *testing.T) {
	got := hookCommand(t, "Stop", []string{"/opt/a b/mcpschedd", "hook", "--config", "/c.toml"})
	if want := "'/opt/a b/mcpschedd' 'hook' '--config' '/c.toml' || true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Hooks are added after those in the file. When they are removed, the file is as before, byte for
// byte, except for a comma after the last element.
func TestHooksGoInAndOut(t *testing.T) {
	own := []string{"/opt/mcpschedd-small", "hook"}
	const events = 7
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
			if n := strings.Count(string(with), "mcpschedd-small' 'hook'"); n != events || json.Valid([]byte(text)) && !json.Valid(with) {
				t.Errorf("got %d hooks, want %d, in\n%s", n, events, with)
			}
			if again, err := clients.WithHooks("/s.json", with, own); err != nil || string(again) != string(with) {
				t.Errorf("once more: got\n%s, %v, want\n%s", again, err, with)
			}
			if none, err := clients.WithHooks("/s.json", []byte(text), nil); err != nil || string(none) != cmp.Or(text, "{}\n") {
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
	// Claude Code adds a hook of its user to the element of another one with the same matcher.
	with, err := clients.WithHooks("/s.json", []byte("{}"), own)
	if err != nil {
		t.Fatal(err)
	}
	mixed := strings.ReplaceAll(string(with), `"hooks":[`, `"hooks":[{"type":"command","command":"say done"},`)
	without, err := clients.WithHooks("/s.json", []byte(mixed), nil)
	if err != nil || strings.Contains(string(without), "'hook'") || strings.Count(string(without), "say done") != events {
		t.Errorf("beside hooks of the user: got\n%s, %v", without, err)
	}
	for _, bad := range []string{`{"hooks": {"Stop": []}, "hooks": {}}`, `{"hooks": {"Stop": [], "Stop": []}}`, `{"hooks": 1}`, `{"hooks": {"Stop": {}}}`, `{"disableAllHooks": true}`, `{`, `[]`} {
		if text, err := clients.WithHooks("/s.json", []byte(bad), own); err == nil {
			t.Errorf("%s: got %s", bad, text)
		}
	}
}
