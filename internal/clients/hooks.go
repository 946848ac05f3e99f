package clients

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// HookMatcher is an element of the list for an event under "hooks" in Claude Code's
// settings.
type HookMatcher struct {
	Matcher string        `json:"matcher,omitempty"` // regular expression for the tool's name; "" matches all
	Hooks   []HookCommand `json:"hooks"`
}

// HookCommand is a command that Claude Code runs for an event.
type HookCommand struct {
	Type    string `json:"type"`
	Command string `json:"command"` // for a shell
	Timeout int    `json:"timeout"` // seconds
}

// reportedTools matches the tools that may change files without mcpschedd: all except
// those known to change none and mcpschedd's own. Unknown tools, including an agent's,
// are reported.
const reportedTools = `^(?!(?:Read|NotebookRead|Glob|Grep|LS|WebFetch|WebSearch|TodoRead|TodoWrite|Task|Agent|` +
	`TaskCreate|TaskGet|TaskList|TaskUpdate|TaskOutput|TaskStop|BashOutput|KillShell|KillBash|ListAgents|SendMessage|` +
	`AskUserQuestion|EnterPlanMode|ExitPlanMode|ToolSearch|CronCreate|CronDelete|CronList|ScheduleWakeup|ReportFindings|` +
	`ListMcpResourcesTool|ReadMcpResourceTool)$|mcp__` + ownName + `__)`

// hookTimeout (seconds) is the time after which Claude Code kills a hook. A hook exits
// much earlier.
const hookTimeout = 5

// HookSettings returns the hooks by which Claude Code reports changes made without
// mcpschedd, by event. line is the command line of mcpschedd's hook: the absolute path
// of the program, "hook", and the flags of "connect". The commands are for Unix, like
// the daemon.
//
// Their exit code is always 0: Claude Code would refuse an edit if the hook exits with
// 2, as a version of mcpschedd without this command does.
func HookSettings(line []string) map[string][]HookMatcher {
	words := make([]string, len(line))
	for i, word := range line {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	run := []HookCommand{{"command", strings.Join(words, " ") + " || true", hookTimeout}}
	all := make(map[string][]HookMatcher)
	for _, event := range []string{"PreToolUse", "PostToolUse", "PostToolUseFailure"} {
		all[event] = []HookMatcher{{reportedTools, run}}
	}
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"} {
		all[event] = []HookMatcher{{Hooks: run}}
	}
	return all
}

// HooksFile returns the path of the user's Claude Code settings with hooks, whether the
// file exists or not.
func HooksFile(m Machine) string { return filepath.Join(m.folder("CLAUDE SETTINGS"), "settings.json") }

// WithHooks returns the text of a Claude Code settings file with mcpschedd's hooks added
// after the others. Earlier hooks of mcpschedd are removed. Empty hooks only remove.
func WithHooks(path string, text []byte, hooks map[string][]HookMatcher) ([]byte, error) {
	switch {
	case len(bytes.TrimSpace(text)) > 0:
	case len(hooks) == 0:
		return text, nil
	default:
		return marshal(map[string]any{"hooks": hooks}, "  ")
	}
	doc, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	patch, err := doc.hooksPatch(hooks)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(patch) == 0:
		return text, nil
	}
	out, err := doc.edited(func(d *document) error { return d.patch(patch...) })
	if err == nil && bytes.Equal(minimal(text), minimal(out)) {
		return text, nil // unchanged
	}
	return out, err
}

// minimal returns JSON without comments and white space.
func minimal(text []byte) []byte {
	out, _ := hujson.Minimize(text) // cannot fail: the text was parsed
	return out
}

// hooksPatch returns the operations that remove mcpschedd's hooks, with the lists and
// the object that have nothing else, and add others.
func (d *document) hooksPatch(hooks map[string][]HookMatcher) (patch []operation, err error) {
	value := at(d.tree, "hooks")
	have, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, fmt.Errorf("/hooks: want an object, have %s", kindOf(value))
	}
	if value == nil && len(hooks) > 0 {
		patch = append(patch, operation{"add", "/hooks", struct{}{}})
	}
	left := len(have) + len(hooks)
	for _, event := range slices.Sorted(maps.Keys(hooks)) {
		if have[event] == nil {
			patch = append(patch, operation{"add", pointer("hooks", event), hooks[event]})
		}
	}
	for event, value := range have {
		path := pointer("hooks", event)
		list, ok := value.([]any)
		if !ok && value != nil {
			return nil, fmt.Errorf("%s: want a list, have %s", path, kindOf(value))
		}
		own := len(patch)
		for i, element := range slices.Backward(list) {
			if isOwnHook(element) {
				patch = append(patch, operation{"remove", fmt.Sprintf("%s/%d", path, i), nil})
			}
		}
		if n := len(patch) - own; n > 0 && n == len(list) && hooks[event] == nil {
			patch = append(patch[:own], operation{"remove", path, nil})
			left--
		}
		for _, one := range hooks[event] {
			if list != nil {
				patch = append(patch, operation{"add", path + "/-", one})
			}
		}
	}
	if left == 0 && len(patch) > 0 {
		return []operation{{"remove", "/hooks", nil}}, nil
	}
	return patch, nil
}

var ownHook = regexp.MustCompile(`\bmcpschedd(-small)?' 'hook'`)

// isOwnHook reports whether an element of the list for an event is mcpschedd's.
func isOwnHook(element any) bool {
	hooks, _ := at(element, "hooks").([]any)
	return slices.ContainsFunc(hooks, func(h any) bool {
		command, _ := at(h, "command").(string)
		return ownHook.MatchString(command)
	})
}
