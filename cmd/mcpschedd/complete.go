package main

import (
	"log/slog"

	"github.com/spf13/cobra"
)

// completions are what a shell offers for a word.
type completions = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// completeUpstreams offers the upstreams of the configuration for the first word, or for a flag.
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

// completeTools offers the tools that upstreams had when they were last connected, and their
// names where nothing is known, for the first word.
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

// oneOf offers these values of a flag.
func oneOf(values ...cobra.Completion) completions {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}
