package valuemodel

import "slices"

// gitlabProviders returns the community's server (zereight/gitlab-mcp), the
// reference one, and what GitLab's own adds; where they share a name they mean
// the same.
//
// project_id has three spellings (number, path, encoded path), so edges are
// matched by iid alone. What is said about one issue or merge request shows in
// those it mentions: discussions are never matched.
//
// Probabilities: as for GitHub.
func gitlabProviders() []Provider {
	merges, notes, diffs, issues, runs := gitlabMerges(), gitlabNotes(), gitlabDiffs(), gitlabIssues(), gitlabRuns()
	plans, wiki, groups, guarded, inbox := gitlabPlans(), gitlabWiki(), gitlabGroups(), gitlabGuarded(), gitlabInbox()
	reads := gitlabReads()
	everything := stale(names(reads)...)
	own := []string{"get_merge_request", "get_merge_request_approval_state", "get_merge_request_conflicts"}
	around := stale(names(notes, plans, inbox)...)
	said := slices.Concat(staleSame("merge_request_iid", own...), stale(without(names(merges), own...)...), stale(names(issues)...), around)
	moved := slices.Concat(said, staleSame("merge_request_iid", names(diffs)...), stale(names(runs)...))
	noted := slices.Concat(staleSame("issue_iid", "get_issue"), stale(without(names(issues), "get_issue")...), stale(names(merges)...), around)
	anyIssue := slices.Concat(stale(names(issues, merges)...), around)

	return []Provider{{
		Name:    "gitlab",
		Servers: []string{"zereight-gitlab-mcp-server", "better-gitlab-mcp-server", "io.github.zereight/gitlab-mcp", "gitlab-mcp-server"},
		Host:    "gitlab.com", Anywhere: true,
		Tools: joined(reads,
			writingThere("create_merge_request_thread", "resolve_merge_request_thread", "create_merge_request_note").stales(said),
			writingThere("update_merge_request_note", "delete_merge_request_note").stales(said),
			writingThere("create_merge_request_discussion_note", "update_merge_request_discussion_note", "delete_merge_request_discussion_note").stales(said),
			writingThere("create_draft_note", "update_draft_note", "delete_draft_note", "publish_draft_note", "bulk_publish_draft_notes").stales(said),
			writingThere("create_merge_request_emoji_reaction", "delete_merge_request_emoji_reaction").stales(said),
			writingThere("create_merge_request_note_emoji_reaction", "delete_merge_request_note_emoji_reaction").stales(said),
			writingThere("approve_merge_request", "unapprove_merge_request", "update_merge_request").stales(moved),

			writingThere("update_issue", "update_issue_description_patch").stales(noted),
			writingThere("create_issue_note", "update_issue_note").stales(noted),
			writingThere("create_issue_emoji_reaction", "delete_issue_emoji_reaction").stales(noted),
			writingThere("create_issue_note_emoji_reaction", "delete_issue_note_emoji_reaction").stales(noted),
			writingThere("create_issue", "delete_issue", "create_issue_link", "delete_issue_link", "create_note").stales(anyIssue),
			writingThere("create_work_item", "update_work_item", "convert_work_item_type", "move_work_item").stales(anyIssue),
			writingThere("create_work_item_note", "create_workitem_note").stales(anyIssue),
			writingThere("create_work_item_emoji_reaction", "delete_work_item_emoji_reaction").stales(anyIssue),
			writingThere("create_work_item_note_emoji_reaction", "delete_work_item_note_emoji_reaction").stales(anyIssue),
			writingThere("create_timeline_event").stales(anyIssue),
			writingThere("create_label", "update_label", "delete_label").stales(anyIssue, stale(names(groups)...)),
			writingThere("create_milestone", "edit_milestone", "delete_milestone", "promote_milestone").stales(anyIssue),
			writingThere("create_group_milestone", "edit_group_milestone", "delete_group_milestone").stales(anyIssue),
			writingThere("mark_todo_done", "mark_all_todos_done").stales(stale(names(inbox)...)),
			writingThere("create_wiki_page", "update_wiki_page", "delete_wiki_page").stales(stale(names(wiki, inbox)...)),
			writingThere("create_group_wiki_page", "update_group_wiki_page", "delete_group_wiki_page").stales(stale(names(wiki, inbox)...)),

			// What changes code, settings or a pipeline may change anything.
			writingThere("merge_merge_request", "create_merge_request", "create_or_update_file", "push_files").stales(everything),
			writingThere("create_branch", "delete_branch", "update_default_branch", "protect_branch", "unprotect_branch").stales(everything),
			writingThere("create_repository", "create_group", "fork_repository", "update_project").stales(everything),
			writingThere("create_tag", "delete_tag", "create_release", "update_release", "delete_release", "create_release_evidence").stales(everything),
			writingThere("create_pipeline", "retry_pipeline", "cancel_pipeline", "create_commit_status").stales(everything),
			writingThere("play_pipeline_job", "retry_pipeline_job", "cancel_pipeline_job").stales(everything),
			unsure("execute_graphql", "manage_pipeline").stales(everything),

			writingThere("create_project_variable", "update_project_variable", "delete_project_variable").stales(stale(names(guarded)...)),
			writingThere("create_group_variable", "update_group_variable", "delete_group_variable").stales(stale(names(guarded)...)),
			writingThere("update_dependency_proxy_settings", "purge_dependency_proxy_cache").stales(stale(names(guarded)...)),
			writingThere("dismiss_vulnerability", "confirm_vulnerability").stales(stale(names(guarded, inbox)...)),
			writingThere("upload_markdown"),
			writingHere("download_job_artifacts", "download_attachment").stales(staleFiles()), // into a local file
			unsure("discover_tools"), // shows more tools from then on
		).showIn(names(devboyReads())...),
	}}
}

func gitlabReads() toolTable {
	return joined(
		gitlabMerges(), gitlabNotes(), gitlabDiffs(), gitlabIssues(), gitlabCode(), gitlabRuns(),
		gitlabPlans(), gitlabWiki(), gitlabGroups(), gitlabGuarded(), gitlabInbox(), gitlabReleases(),
	)
}

func gitlabMerges() toolTable {
	return joined(
		reading("get_merge_request").worth(Critical).live(), // with the state of its pipeline
		reading("get_merge_request_approval_state", "get_merge_request_conflicts").worth(Supporting),
		reading("list_merge_requests").worth(Supporting).leadsTo(
			follow("mr_discussions", 78./243, "project_id", "$args.project_id", "merge_request_iid", "$result[*].iid"),
		),
		reading("get_milestone_merge_requests", "get_group_milestone_merge_requests").worth(Supporting),
	)
}

func gitlabNotes() toolTable {
	return joined(
		reading("mr_discussions", "get_merge_request_notes", "get_merge_request_note").worth(Critical),
		reading("list_issue_discussions").worth(Critical),
		reading("list_work_item_notes", "get_workitem_notes").worth(Critical),
		reading("list_draft_notes", "get_draft_note").worth(Supporting),
		reading("list_merge_request_emoji_reactions", "list_merge_request_note_emoji_reactions").worth(Optional),
		reading("list_issue_emoji_reactions", "list_issue_note_emoji_reactions").worth(Optional),
		reading("list_work_item_emoji_reactions", "list_work_item_note_emoji_reactions").worth(Optional),
	)
}

// gitlabDiffs say what one merge request changes, and take its iid.
func gitlabDiffs() toolTable {
	return joined(
		reading("get_merge_request_diffs", "list_merge_request_diffs", "get_merge_request_file_diff").worth(Critical),
		reading("list_merge_request_changed_files", "get_merge_request_commits").worth(Supporting),
		reading("list_merge_request_versions", "get_merge_request_version").worth(Optional),
	)
}

func gitlabIssues() toolTable {
	return joined(
		reading("get_issue", "get_work_item").worth(Critical),
		reading("list_issues", "my_issues").worth(Supporting).leadsTo(
			follow("get_issue", 0.29, "project_id", "$args.project_id", "issue_iid", "$result[*].iid"),
		),
		reading("list_work_items", "list_issue_links", "get_issue_link", "get_timeline_events").worth(Supporting),
		reading("list_work_item_statuses", "list_custom_field_definitions").worth(Optional),
	)
}

// gitlabPlans are what issues and merge requests are counted in.
func gitlabPlans() toolTable {
	return joined(
		reading("list_milestones", "get_milestone", "get_milestone_issue", "get_milestone_burndown_events").worth(Supporting),
		reading("list_group_milestones", "get_group_milestone", "get_group_milestone_issue", "get_group_milestone_burndown_events").worth(Supporting),
		reading("list_group_iterations", "get_group_iteration", "list_labels", "get_label").worth(Optional),
		reading("gitlab_search").worth(Supporting),
	)
}

func gitlabCode() toolTable {
	return joined(
		reading("get_file_contents", "get_commit", "get_commit_diff", "get_branch_diffs", "get_file_blame").worth(Critical),
		reading("get_repository_tree", "list_commits", "get_branch", "list_branches", "search_commits").worth(Supporting),
		reading("search_code", "search_project_code", "search_group_code").worth(Supporting),
		reading("semantic_code_search").worth(Supporting).unguessed(), // a model is asked
		reading("list_protected_branches", "get_protected_branch", "list_tags", "get_tag", "get_tag_signature").worth(Optional),
		reading("validate_ci_lint", "validate_project_ci_lint").worth(Supporting).abroad(), // what it includes is fetched
	)
}

func gitlabRuns() toolTable {
	return joined(
		reading("list_pipelines", "get_pipeline", "list_merge_request_pipelines", "get_merge_request_pipelines").worth(Supporting).live().givesUpAfter(3),
		reading("list_pipeline_jobs", "get_pipeline_jobs", "list_pipeline_trigger_jobs", "get_pipeline_job").worth(Supporting).live().givesUpAfter(3),
		reading("list_commit_statuses", "list_deployments", "get_deployment", "list_environments", "get_environment").worth(Supporting).live(),
		reading("get_pipeline_job_output").worth(Critical).live().unguessed(),
		reading("list_job_artifacts", "get_job_artifact_file").worth(Supporting).live().unguessed(),
	)
}

func gitlabWiki() toolTable {
	return joined(
		reading("get_wiki_page", "get_group_wiki_page").worth(Critical),
		reading("list_wiki_pages", "list_group_wiki_pages").worth(Supporting),
	)
}

func gitlabGroups() toolTable {
	return joined(
		reading("search_repositories").worth(Supporting),
		reading("get_project", "list_projects", "list_group_projects").worth(Supporting).unguessed(), // with the token of its runners
		reading("list_project_members", "list_group_members", "get_users", "get_user", "whoami").worth(Optional),
		reading("list_namespaces", "get_namespace", "verify_namespace").worth(Optional),
		reading("list_ci_catalog_resources", "get_ci_catalog_resource").worth(Optional),
		reading("health_check", "get_mcp_server_version").worth(AuditOnly).live(),
	)
}

// gitlabGuarded hold secrets, or show where a project is open to attack.
func gitlabGuarded() toolTable {
	return joined(
		reading("list_project_variables", "get_project_variable", "list_group_variables", "get_group_variable").unguessed(),
		reading("list_webhooks", "list_webhook_events", "get_webhook_event").unguessed(),
		reading("get_dependency_proxy_settings", "list_dependency_proxy_blobs").unguessed(),
		reading("list_project_vulnerabilities", "get_vulnerability").worth(Supporting),
	)
}

func gitlabInbox() toolTable {
	return reading("list_todos", "list_events", "get_project_events").worth(Supporting).live()
}

func gitlabReleases() toolTable {
	return joined(
		reading("list_releases", "get_release").worth(Optional),
		reading("download_release_asset").worth(Optional).unguessed(), // as large as it is
	)
}
