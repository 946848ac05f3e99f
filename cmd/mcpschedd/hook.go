package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"mcpschedd/internal/daemon"
)

func hookCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "hook",
		Short: "Report what a client changes by itself: for its hooks",
		Long: `Tells the process that serves all clients what Claude Code does without mcpschedd.
Claude Code's hooks run it before and after each edit and command, and give it what it
reads on stdin. No stored answer from before an edit is served then, and files are read
ahead in a folder in which all clients report.

It starts nothing, prints nothing and always ends with 0: whatever is wrong, and where
that process does not run, the client goes on.

Any other client that can run a command round an edit may report by the same words:
hook_event_name is PreToolUse before, and PostToolUse afterwards; tool_name and
tool_use_id say what is done, cwd and session_id where.`,
		Example: `  mcpschedd hook < before-edit.json   {"hook_event_name": "PreToolUse", "tool_name":
                                      "Edit", "tool_use_id": "1", "cwd": "/project"}
  mcpschedd hook < after-edit.json    the same, with "PostToolUse"`,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // of a later version
		Run: func(*cobra.Command, []string) {
			// The small program does not take the place of this one, as it does for connect: one of
			// another version may not know the command, and its exit code would forbid the edit.
			daemon.Hook(os.Stdin, func() (daemon.Place, *slog.Logger, error) { return hookPlace(file) })
		},
	}
	configFlag(c, &file)
	c.SetFlagErrorFunc(func(*cobra.Command, error) error { return nil })
	return c
}

// hookPlace is where a hook finds the daemon.
func hookPlace(file string) (daemon.Place, *slog.Logger, error) {
	c, _, err := loadServed(file)
	if err != nil {
		return daemon.Place{}, nil, err
	}
	dir, err := c.StateDir(os.Getenv)
	if err != nil {
		return daemon.Place{}, nil, err
	}
	place, log := daemon.HookPlace(dir, c.Path)
	return place, log, nil
}
