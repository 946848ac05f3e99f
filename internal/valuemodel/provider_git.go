package valuemodel

import "slices"

// gitProviders returns the servers over a local git repository. They name the
// repository by different arguments, and a path has many spellings, so no edge
// is matched.
func gitProviders() []Provider {
	reads := gitReads()
	// A push shows in another domain: where the repository is hosted.
	hosted := slices.Concat(names(githubReads()), names(gitlabReads()))
	slices.Sort(hosted)
	pushed := stale(slices.Compact(hosted)...)
	return []Provider{{
		Name:    "git", // geropl/git-mcp-go and the reference server
		Servers: []string{"git mcp server", "mcp-git"},
		Tools: joined(reads,
			writingHere("git_add", "git_commit", "git_reset", "git_create_branch", "git_init").stales(staleFiles()),
			writingHere("git_checkout", "git_apply_patch_string", "git_apply_patch_file").stales(staleFiles()),
			writingThere("git_push").stales(staleFiles(), pushed),
			unsure("git_branch").stales(staleFiles()), // lists in one server, deletes in the other
		),
	}, {
		Name:    "git-cyanheads",
		Servers: []string{"git-mcp-server", "@cyanheads/git-mcp-server"},
		Tools: joined(reads,
			writingHere("git_add", "git_commit", "git_reset", "git_init", "git_clone", "git_checkout", "git_clean").stales(staleFiles()),
			writingHere("git_cherry_pick", "git_merge", "git_rebase", "git_pull", "git_fetch").stales(staleFiles()),
			// The folder that calls without a path mean.
			writingHere("git_set_working_dir", "git_clear_working_dir").stales(staleFiles()),
			writingThere("git_push").stales(staleFiles(), pushed),
			// These list or change, by an argument.
			unsure("git_branch", "git_remote", "git_stash", "git_tag", "git_worktree").stales(staleFiles()),
		),
	}}
}

func gitReads() toolTable {
	return joined(
		reading("git_status").worth(Supporting).live(),
		reading("git_diff", "git_diff_unstaged", "git_diff_staged", "git_show").worth(Critical),
		reading("git_log", "git_blame", "git_reflog").worth(Supporting),
		reading("git_changelog_analyze", "git_wrapup_instructions", "git_list_repositories").worth(Optional),
	)
}
