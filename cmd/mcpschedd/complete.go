package main

import "github.com/spf13/cobra"

// completeUpstreams completes the names of upstreams, for the first argument.
func completeUpstreams(file *string) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
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
