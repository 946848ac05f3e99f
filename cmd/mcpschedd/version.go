package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and its commit",
		Example: "  mcpschedd version",
		Args:    takes(0, 0, ""),
		Run: func(c *cobra.Command, _ []string) {
			fmt.Fprintf(c.OutOrStdout(), "mcpschedd version %s\n", versionLine())
		},
	}
}

// version returns the module's version, or else the commit it was built from.
func version() string {
	v, commit, _ := built()
	return cmp.Or(v, commit, "dev")
}

// versionLine returns the version with commit, date and platform.
func versionLine() string {
	_, commit, date := built()
	return fmt.Sprintf("%s (commit %s, %s, %s %s/%s)", version(), cmp.Or(commit, "unknown"), cmp.Or(date, "date unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// built returns the version, commit and commit date of the build; "" for unknown ones.
func built() (version, commit, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", "", ""
	}
	if version = info.Main.Version; version == "(devel)" {
		version = ""
	}
	set := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	commit = set["vcs.revision"]
	return version, commit[:min(len(commit), 12)], set["vcs.time"]
}
