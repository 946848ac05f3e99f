package main

import "github.com/spf13/cobra"

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion [bash|zsh|fish|powershell]",
		Short: "Print the script that completes commands, flags and servers in a shell",
		Long: `Prints the script with which a shell completes mcpschedd's commands, its flags and the
names of servers. Alone it prints this help. Type the line of your shell once, and
open a new terminal:

  bash        echo 'eval "$(mcpschedd completion bash)"' >> ~/.bashrc
  zsh         echo 'eval "$(mcpschedd completion zsh)"' >> ~/.zshrc
  fish        echo 'mcpschedd completion fish | source' >> ~/.config/fish/config.fish
  powershell  'mcpschedd completion powershell | Out-String | iex' >> $PROFILE

bash needs the package bash-completion. zsh needs "autoload -U compinit; compinit" above
this line.`,
		Example:   `  eval "$(mcpschedd completion bash)"    complete in this bash, until it exits`,
		Args:      cobra.MatchAll(takes(0, 1, ""), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return c.Help()
			}
			root, out := c.Root(), c.OutOrStdout()
			switch words[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			}
			return root.GenPowerShellCompletionWithDesc(out)
		},
	}
}

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
