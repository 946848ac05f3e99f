package clients

import "strings"

// HookMatcher is one element of what Claude Code's settings have for an event, under "hooks".
type HookMatcher struct {
	Matcher string        `json:"matcher,omitempty"` // a regular expression on the tool's name; "": all
	Hooks   []HookCommand `json:"hooks"`
}

// HookCommand is what Claude Code runs then.
type HookCommand struct {
	Type    string `json:"type"`
	Command string `json:"command"` // for a shell
	Timeout int    `json:"timeout"` // seconds
}

// reportedTools are those that may change a file without mcpschedd: not what is known to
// change none, nor the tools of mcpschedd itself. A tool that is not known is reported. An
// agent's own tools are.
const reportedTools = `^(?!(?:Read|NotebookRead|Glob|Grep|LS|WebFetch|WebSearch|TodoRead|TodoWrite|Task|Agent|` +
	`TaskCreate|TaskGet|TaskList|TaskUpdate|TaskOutput|TaskStop|BashOutput|KillShell|KillBash|ListAgents|SendMessage|` +
	`AskUserQuestion|EnterPlanMode|ExitPlanMode|ToolSearch|CronCreate|CronDelete|CronList|ScheduleWakeup|ReportFindings|` +
	`ListMcpResourcesTool|ReadMcpResourceTool)$|mcp__` + ownName + `__)`

// hookTimeout (seconds) is when Claude Code ends a hook. It ends by itself long before.
const hookTimeout = 5

// HookSettings are the hooks by which Claude Code reports what is changed without mcpschedd,
// event → what its settings have for it. line is the command line of mcpschedd's hook: the
// absolute path of the program, "hook", and the flags that "connect" has. They are for Unix,
// as the daemon is.
//
// Whatever becomes of the program, its exit code is 0: Claude Code would not make an edit
// whose hook ends with 2, as that of a version without this command does.
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
