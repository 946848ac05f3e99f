package main

import (
	"log/slog"

	"github.com/spf13/cobra"
)

// completions returns the shell's completions of a word.
type completions = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeUpstreams completes the names of upstreams, for the first argument or a flag.
func completeUpstreams(file *string) completions {
	return func(_ *cobra.Command, words []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var names []cobra.Completion
		if c, err := load(*file); err == nil && len(words) == 0 {
			for _, u := range c.Upstreams {
				names = append(names, u.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTools completes the tools of the last known lists, and the names of upstreams without
// a list, for the first argument.
func completeTools(file *string) completions {
	return func(_ *cobra.Command, words []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, dir, err := loadWithState(*file)
		if err != nil || len(words) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []cobra.Completion
		for _, k := range lastKnowns(options(c, dir, slog.New(slog.DiscardHandler)).Upstreams) {
			tools := k.tools()
			for _, tool := range tools {
				names = append(names, k.name()+"/"+tool)
			}
			if len(tools) == 0 {
				names = append(names, k.name()+"/")
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// oneOf completes fixed values of a flag.
func oneOf(values ...cobra.Completion) completions {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
