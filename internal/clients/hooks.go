package clients

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// hookMatcher is an element of the list for an event under "hooks" in Claude Code's
// settings.
type hookMatcher struct {
	Matcher string        `json:"matcher,omitempty"` // regular expression for the tool's name; "" matches all
	Hooks   []hookCommand `json:"hooks"`
}

// hookCommand is a command that Claude Code runs for an event.
type hookCommand struct {
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

// hooksOf returns the hooks by which Claude Code reports changes made without
// mcpschedd, by event. line is the command line of mcpschedd's hook: the absolute path
// of the program, "hook", and the flags of "connect". The commands are for a POSIX
// shell; import --hooks is refused on Windows.
//
// Their exit code is always 0: Claude Code would refuse an edit if the hook exits with
// 2, as a version of mcpschedd without this command does.
func hooksOf(line []string) map[string]hookMatcher {
	if line == nil {
		return nil
	}
	words := make([]string, len(line))
	for i, word := range line {
		words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	run := []hookCommand{{"command", strings.Join(words, " ") + " || true", hookTimeout}}
	all := make(map[string]hookMatcher)
	for _, event := range []string{"PreToolUse", "PostToolUse", "PostToolUseFailure"} {
		all[event] = hookMatcher{reportedTools, run}
	}
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"} {
		all[event] = hookMatcher{Hooks: run}
	}
	return all
}

// HooksFile returns the path of the user's Claude Code settings with hooks, whether the
// file exists or not.
func (r *Reader) HooksFile() string {
	return filepath.Join(r.options.folder("CLAUDE SETTINGS"), "settings.json")
}

// WithHooks returns the text of a Claude Code settings file with mcpschedd's hooks, which run
// the command line, added after the others. Earlier hooks of mcpschedd are removed. Without a
// command line they are only removed.
func WithHooks(path string, text []byte, line []string) ([]byte, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}\n")
	}
	doc, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	return doc.edited(func(d *document) error { return d.setHooks(hooksOf(line)) })
}

// setHooks removes mcpschedd's hooks, with the lists and the object that had nothing else,
// and adds others.
func (d *document) setHooks(hooks map[string]hookMatcher) error {
	value := at(d.tree, "hooks")
	have, ok := value.(map[string]any)
	if !ok && value != nil {
		return fmt.Errorf("/hooks: want an object, have %s", kindOf(value))
	}
	if len(hooks) > 0 && at(d.tree, "disableAllHooks") == true {
		return errors.New("/disableAllHooks: want false, or Claude Code runs no hook")
	}
	for _, event := range slices.AppendSeq(slices.Collect(maps.Keys(have)), maps.Keys(hooks)) {
		if name := d.repeated([]string{"hooks", event}); name != "" {
			return fmt.Errorf("want one member %q on the way to the hooks, have several", shown(name))
		}
	}
	var failed []error
	patch := func(operation, path string, value any) { failed = append(failed, d.patch(operation, path, value)) }
	emptied := 0
	for event, value := range have {
		path := pointer("hooks", event)
		list, ok := value.([]any)
		if !ok && value != nil {
			return fmt.Errorf("%s: want a list, have %s", path, kindOf(value))
		}
		left := len(list)
		for i, element := range slices.Backward(list) {
			commands, _ := at(element, "hooks").([]any)
			own := 0
			for j, hook := range slices.Backward(commands) {
				if command, _ := at(hook, "command").(string); ownHook.MatchString(command) {
					own++
					patch("remove", fmt.Sprintf("%s/%d/hooks/%d", path, i, j), nil)
				}
			}
			if own > 0 && own == len(commands) { // else the user has added others
				left--
				patch("remove", fmt.Sprintf("%s/%d", path, i), nil)
			}
		}
		if _, again := hooks[event]; left == 0 && len(list) > 0 && !again {
			emptied++
			patch("remove", path, nil)
		}
	}
	switch {
	case emptied > 0 && emptied == len(have) && len(hooks) == 0:
		patch("remove", "/hooks", nil)
	case have == nil && len(hooks) > 0:
		patch("add", "/hooks", struct{}{})
	}
	for _, event := range slices.Sorted(maps.Keys(hooks)) {
		path := pointer("hooks", event)
		if have[event] == nil {
			patch("add", path, []any{})
		}
		patch("add", path+"/-", hooks[event])
	}
	return errors.Join(failed...)
}

// ownHook matches the command of a hook of mcpschedd.
var ownHook = regexp.MustCompile(`\bmcpschedd(-small|-full)?' 'hook'`)
