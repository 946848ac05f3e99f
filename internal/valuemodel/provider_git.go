package valuemodel

import "slices"

// gitProviders returns the servers over a local git repository. They name the
// repository by different arguments, and a path has many spellings, so no edge
// is matched.
func gitProviders() []Provider {
	reads := gitReads()
	pushed := stale(hosted()...)
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

// hosted lists the tools that read where repositories are hosted, which is another
// domain than this machine: what pushes to one shows there. The tracker's among
// them are asked for the same issues by way of another server.
func hosted() []string {
	all := slices.Concat(names(githubReads()), names(gitlabReads()), names(devboyReads()))
	slices.Sort(all)
	return slices.Compact(all)
}

func gitReads() toolTable {
	return joined(
		// These refresh the index and hold its lock meanwhile: a commit at the same
		// time fails, so no guess may.
		reading("git_status").worth(Supporting).live().unguessed(),
		reading("git_diff", "git_diff_unstaged", "git_diff_staged").worth(Critical).live().unguessed(),
		reading("git_wrapup_instructions").worth(Optional).live().unguessed(),
		reading("git_show").worth(Critical),
		reading("git_blame", "git_reflog").worth(Supporting),
		reading("git_changelog_analyze", "git_list_repositories").worth(Optional),
		// It may be asked for signatures, which gpg verifies: that keeps files of its own.
		reading("git_log").worth(Supporting).unguessed(),
	)
}
