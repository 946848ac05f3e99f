package clients

import "strings"

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
