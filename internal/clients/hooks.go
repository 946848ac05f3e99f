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

// HookMatcher is an element of the list for an event under "hooks" in Claude Code's settings.
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

// reportedTools matches the tools that may change files without mcpschedd: all except those
// known to change none and mcpschedd's own. Unknown tools, including an agent's, are reported.
const reportedTools = `^(?!(?:Read|NotebookRead|Glob|Grep|LS|WebFetch|WebSearch|TodoRead|TodoWrite|Task|Agent|` +
	`TaskCreate|TaskGet|TaskList|TaskUpdate|TaskOutput|TaskStop|BashOutput|KillShell|KillBash|ListAgents|SendMessage|` +
	`AskUserQuestion|EnterPlanMode|ExitPlanMode|ToolSearch|CronCreate|CronDelete|CronList|ScheduleWakeup|ReportFindings|` +
	`ListMcpResourcesTool|ReadMcpResourceTool)$|mcp__` + ownName + `__)`

// hookTimeout (seconds) is the time after which Claude Code kills a hook. A hook exits much
// earlier.
const hookTimeout = 5

// HookSettings returns the hooks by which Claude Code reports changes made without mcpschedd,
// by event. line is the command line of mcpschedd's hook: the absolute path of the program,
// "hook", and the flags of "connect". The commands are for Unix, like the daemon.
//
// Their exit code is always 0: Claude Code would refuse an edit if the hook exits with 2, as a
// version of mcpschedd without this command does.
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

// HooksFile returns the path of the user's Claude Code settings with hooks, whether the file
// exists or not.
func HooksFile(m Machine) string { return filepath.Join(m.folder("CLAUDE SETTINGS"), "settings.json") }

// WithHooks returns the text of a Claude Code settings file with mcpschedd's hooks added after
// the others. Earlier hooks of mcpschedd are removed. Empty hooks only remove.
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
	out, err := doc.edited(func(d *document) error {
		if err := d.dropHooks(); err != nil {
			return err
		}
		return d.addHooks(hooks)
	})
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

func (d *document) addHooks(hooks map[string][]HookMatcher) error {
	for _, event := range slices.Sorted(maps.Keys(hooks)) {
		path := pointer("hooks", event)
		if v := d.root.Find("/hooks"); v == nil || v.Value.Kind() == 'n' {
			if err := d.patch("add", "/hooks", struct{}{}); err != nil {
				return err
			}
		}
		if v := d.root.Find(path); v == nil || v.Value.Kind() == 'n' {
			if err := d.patch("add", path, []any{}); err != nil {
				return err
			}
		}
		if list := d.root.Find(path); list.Value.Kind() != '[' {
			return fmt.Errorf("%s: want a list, have %s", path, kindOf(at(d.tree, "hooks", event)))
		}
		for _, one := range hooks[event] {
			if err := d.patch("add", path+"/-", one); err != nil {
				return err
			}
		}
	}
	return nil
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

// dropHooks removes mcpschedd's hooks, and the objects and lists that contain nothing else.
func (d *document) dropHooks() error {
	hooks, _ := at(d.tree, "hooks").(map[string]any)
	left, paths := len(hooks), []string(nil)
	for event, value := range hooks {
		list, _ := value.([]any)
		var own []string
		for i := len(list) - 1; i >= 0; i-- {
			if isOwnHook(list[i]) {
				own = append(own, fmt.Sprintf("%s/%d", pointer("hooks", event), i))
			}
		}
		if len(own) > 0 && len(own) == len(list) {
			own, left = []string{pointer("hooks", event)}, left-1
		}
		paths = append(paths, own...)
	}
	if len(paths) > 0 && left == 0 {
		paths = []string{"/hooks"}
	}
	for _, path := range paths {
		if err := d.patch("remove", path, nil); err != nil {
			return err
		}
	}
	return nil
}
