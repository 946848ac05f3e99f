package main

import (
	"os"

	"github.com/spf13/cobra"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/paths"
)

func hookCommand() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use:   "hook",
		Short: "Report a client's own edits to the daemon; run by its hooks",
		Long: `Reports to the daemon what Claude Code changes without mcpschedd. Claude Code's hooks run
it before and after each edit and command, and pass the event on stdin. Results cached
before an edit are then no longer served, and files are prefetched in directories where
all clients report.

It starts nothing, prints nothing and always exits with 0, so that neither an error nor a
missing daemon stops the client.

Any other client that can run a command around an edit can report in the same format:
hook_event_name is PreToolUse before the edit and PostToolUse after it; tool_name and
tool_use_id identify the edit, cwd and session_id the place.`,
		Example: `  mcpschedd hook < before-edit.json   {"hook_event_name": "PreToolUse", "tool_name":
                                      "Edit", "tool_use_id": "1", "cwd": "/project"}
  mcpschedd hook < after-edit.json    the same, with "PostToolUse"`,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // of a later version
		PersistentPreRun:   func(*cobra.Command, []string) {},            // nothing is refused
		Run: func(*cobra.Command, []string) {
			// Unlike connect, hook does not become the small program: another version may not have the
			// command, and its exit code would block the edit.
			daemon.Hook(os.Stdin, func() (dir, file string, err error) { return paths.Locate(config, os.Getenv) })
		},
	}
	configFlag(c, &config)
	c.SetFlagErrorFunc(func(*cobra.Command, error) error { return nil })
	return c
}
