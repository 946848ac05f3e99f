package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/record"
)

// upstreamLog is the name of the log of an upstream's stderr.
func upstreamLog(name string) string { return "upstream-" + name }

func logsCommand() *cobra.Command {
	var file string
	var lines int
	c := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the end of the proxy's log, or of a server's stderr",
		Long: `Prints the last lines of the proxy's log, or of what the server NAME wrote to stderr. Both
are kept in the state directory, in logs.`,
		Example: `  mcpschedd logs
  mcpschedd logs github -n 20`,
		Args:              takes(0, 1, ""),
		ValidArgsFunction: completeUpstreams(&file),
		RunE: func(c *cobra.Command, words []string) error {
			if lines < 0 {
				return usage("--lines: want 0 or more, have %d", lines)
			}
			upstream := ""
			if len(words) > 0 {
				upstream = words[0]
			}
			return printLog(c.OutOrStdout(), c.ErrOrStderr(), file, upstream, lines)
		},
	}
	configFlag(c, &file)
	c.Flags().IntVarP(&lines, "lines", "n", 100, "print the last `LINES`")
	return c
}

// printLog prints the end of an upstream's log, or of the proxy's if upstream is "", continuing into the
// renamed one if needed.
func printLog(stdout, stderr io.Writer, file, upstream string, lines int) error {
	c, dir, mistakes, err := loadServed(file, stateToRead)
	if err != nil {
		return err
	}
	path := daemon.OpenLog(dir.Path(""), upstreamLog(upstream)).Path
	if upstream == "" {
		path = cmp.Or(c.Log.File, daemon.OpenLog(dir.Path(""), daemon.ProgramLog).Path)
		crashes := daemon.OpenLog(dir.Path(""), daemon.OutputLog).Path
		if info, err := os.Stat(crashes); err == nil && info.Size() > 0 {
			say(stderr, "note: other output of daemons, such as the cause of a crash, is in %s", crashes)
		}
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		none := fmt.Errorf("no log at %s", path)
		if upstream == "" {
			return hinted{none, "nothing has been logged there yet"}
		}
		const elsewhere = "mcpschedd logs has the errors of starting and calling it"
		u, unknown := upstreamNamed(c, upstream)
		switch {
		case unknown != nil && mistakes != nil:
			return mistakes // its block may be the one with the mistake
		case unknown != nil:
			return unknown
		case u.URL != "":
			return hinted{fmt.Errorf("server %q has a URL, and so no stderr", upstream), elsewhere}
		}
		return hinted{none, "the server has written nothing to stderr; " + elsewhere}
	}
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(path + ".1"); err == nil && bytes.Count(text, []byte("\n")) < lines {
		text = append(before, text...)
	}
	if len(text) == 0 {
		say(stderr, "note: %s is empty", path)
	}
	all := slices.Collect(bytes.Lines(text))
	_, err = io.WriteString(stdout, record.Printable(string(bytes.Join(all[max(0, len(all)-lines):], nil)), '\n', '\t'))
	return err
}
