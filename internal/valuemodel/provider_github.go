package valuemodel

import "slices"

// githubProviders returns GitHub's own server under its present names (one tool
// reads an issue, one writes it) and those of its earlier generations, and the
// reference server before it: all three call themselves the same.
//
// Edges are matched by number alone: a renamed repository answers to both
// names. Numbers match only where the answer is about that one issue or pull
// request: issue_read may show sub-issues or the parent, so every issue write
// stales all of it. Between issue_number and pullNumber, which name the same
// things, nothing is matched.
//
// Probabilities: paper3_followup_edges_lag1_complete.csv (merge requests) and
// context_enrichment_stats.csv (issues) of the corpus, meteora-pro/devboy-tools,
// Apache-2.0: of another server's tools for the same purpose.
func githubProviders() []Provider {
	issues, pulls, code, runs := githubIssues(), githubPulls(), githubCode(), githubRuns()
	inbox, projects, labels := githubInbox(), githubProjects(), githubLabels()
	discussions, gists := githubDiscussions(), githubGists()
	repositories, people := githubRepositories(), githubPeople()
	reads := githubReads()
	everything := stale(names(reads)...)
	// A workflow may start on anything that happens to an issue or a pull request.
	around := stale(names(runs, inbox, projects, repositories)...)
	issueWrite := slices.Concat(
		stale(without(names(issues), "get_issue", "get_issue_comments")...),
		stale(names(pulls, labels)...), around,
	)

	return []Provider{{
		Name:    "github",
		Servers: []string{"github-mcp-server"},
		Host:    "api.github.com",
		Tools: joined(reads,
			writingThere("add_issue_comment", "update_issue").stales(issueWrite, staleSame("issue_number", "get_issue", "get_issue_comments")),
			writingThere("issue_write", "create_issue").stales(issueWrite, stale("get_issue", "get_issue_comments")),
			writingThere("sub_issue_write", "add_sub_issue", "remove_sub_issue", "reprioritize_sub_issue").stales(issueWrite, stale("get_issue", "get_issue_comments")),
			writingThere("label_write").stales(stale(names(labels, issues, pulls)...), around),

			writingThere("pull_request_review_write", "add_comment_to_pending_review").stales(onePull("pullNumber"), around),
			writingThere("add_reply_to_pull_request_comment").stales(onePull("pullNumber"), around),
			writingThere("create_pending_pull_request_review", "create_and_submit_pull_request_review").stales(onePull("pullNumber"), around),
			writingThere("submit_pending_pull_request_review", "delete_pending_pull_request_review").stales(onePull("pullNumber"), around),
			writingThere("create_pull_request_review").stales(onePull("pull_number"), around),
			writingThere("update_pull_request", "request_copilot_review").stales(onePull("pullNumber"), around),

			// What changes code closes issues, moves pull requests and starts runs.
			writingThere("merge_pull_request", "update_pull_request_branch", "create_pull_request").stales(everything),
			writingThere("create_or_update_file", "delete_file", "push_files", "create_branch").stales(everything),
			writingThere("create_repository", "fork_repository").stales(everything),
			writingThere("assign_copilot_to_issue", "assign_copilot_to_issue_with_intent").stales(everything),
			writingThere("actions_run_trigger", "run_workflow", "rerun_workflow_run", "rerun_failed_jobs").stales(everything),
			writingThere("cancel_workflow_run").stales(stale(names(runs, inbox, pulls, code)...)),
			writingThere("delete_workflow_run_logs").stales(stale(names(runs)...)),

			writingThere("projects_write").stales(stale(names(issues, pulls)...), around),
			writingThere("discussion_comment_write").stales(stale(names(discussions)...), around),
			writingThere("create_gist", "update_gist").stales(stale(names(gists)...), stale("get_me")),
			writingThere("dismiss_notification", "mark_all_notifications_read").stales(stale(names(inbox)...)),
			writingThere("manage_notification_subscription", "manage_repository_notification_subscription").stales(stale(names(inbox)...)),
			writingThere("star_repository", "unstar_repository").stales(stale(names(repositories, people)...)),
		).showIn(names(devboyReads())...),
	}}
}

func githubReads() toolTable {
	return joined(
		githubIssues(), githubPulls(), githubCode(), githubRuns(), githubSecurity(), githubInbox(),
		githubProjects(), githubLabels(), githubDiscussions(), githubGists(), githubRepositories(), githubPeople(),
	)
}

// onePull are the edges of a write to the pull request that argument numbers;
// it was pull_number once. The issues interface shows pull requests too.
func onePull(argument string) []Edge {
	one := []string{"get_pull_request", "get_pull_request_files", "get_pull_request_reviews", "get_pull_request_status"}
	if argument == "pull_number" {
		one = append(one, "get_pull_request_comments")
	} else {
		one = append(one, "pull_request_read", "get_pull_request_diff", "get_pull_request_review_comments")
	}
	return append(staleSame(argument, one...), stale(without(names(githubPulls(), githubIssues()), one...)...)...)
}

func githubIssues() toolTable {
	const read = 0.29 // turns that read on after a list of 500 to 1,500 characters an issue
	return joined(
		reading("get_issue", "get_issue_comments", "issue_read").worth(Critical),
		reading("list_issues").worth(Supporting).leadsTo(
			githubNext("get_issue", read, "issue_number", "$result[*].number"), // the reference server
			githubNext("get_issue", read, "issue_number", "$result.issues[*].number"),
			githubNext("issue_read", read, "issue_number", "$result.issues[*].number", "method", "get"),
		),
		reading("search_issues", "list_sub_issues").worth(Supporting),
		reading("list_issue_types", "list_issue_fields").worth(Optional),
	)
}

func githubPulls() toolTable {
	const read = 78. / 243 // get_merge_requests → get_merge_request_discussions
	return joined(
		reading("get_pull_request", "get_pull_request_diff", "get_pull_request_files").worth(Critical),
		reading("pull_request_read").worth(Critical).live(), // its checks as well
		reading("get_pull_request_comments", "get_pull_request_review_comments", "get_pull_request_reviews").worth(Critical),
		reading("get_pull_request_status").worth(Supporting).live(),
		reading("list_pull_requests").worth(Supporting).leadsTo(
			githubNext("get_pull_request", read, "pull_number", "$result[*].number"), // the reference server
			githubNext("get_pull_request", read, "pullNumber", "$result[*].number"),
			githubNext("pull_request_read", read, "pullNumber", "$result[*].number", "method", "get"),
		),
		reading("search_pull_requests").worth(Supporting),
	)
}

// githubNext is a follow-up within the repository that the call named.
func githubNext(tool string, probability float64, args ...string) FollowUp {
	return follow(tool, probability, append([]string{"owner", "$args.owner", "repo", "$args.repo"}, args...)...)
}

func githubCode() toolTable {
	return joined(
		reading("get_file_contents", "get_commit").worth(Critical),
		reading("get_repository_tree", "list_commits", "list_branches").worth(Supporting),
		reading("search_commits").worth(Supporting),
		reading("search_code").worth(Supporting).unguessed(), // ten a minute
		reading("get_tag", "list_tags", "get_latest_release", "get_release_by_tag", "list_releases").worth(Optional),
	)
}

func githubRuns() toolTable {
	return joined(
		reading("actions_list").worth(Supporting).live(),
		reading("actions_get").worth(Supporting).live().unguessed(), // links that need no further leave
		reading("get_workflow_run", "get_workflow_run_usage", "list_workflow_runs").worth(Supporting).live(),
		reading("list_workflow_jobs", "list_workflow_run_artifacts", "list_workflows").worth(Supporting).live(),
		reading("get_job_logs", "get_workflow_run_logs").worth(Critical).live().unguessed(), // all of them, as large as they are
		reading("download_workflow_run_artifact").live().unguessed(),                        // a link that is good for a minute
	)
}

func githubSecurity() toolTable {
	return joined(
		reading("get_code_scanning_alert", "list_code_scanning_alerts", "get_code_quality_finding").worth(Supporting),
		reading("get_dependabot_alert", "list_dependabot_alerts").worth(Supporting),
		reading("get_secret_scanning_alert", "list_secret_scanning_alerts").worth(Supporting).unguessed(), // show the secret
		reading("get_global_security_advisory", "list_global_security_advisories").worth(Optional),
		reading("list_repository_security_advisories", "list_org_repository_security_advisories").worth(Optional),
	)
}

func githubInbox() toolTable {
	return reading("list_notifications", "get_notification_details").worth(Supporting).live()
}

func githubProjects() toolTable {
	return reading("projects_get", "projects_list").worth(Supporting)
}

func githubLabels() toolTable {
	return reading("get_label", "list_label").worth(Optional)
}

func githubDiscussions() toolTable {
	return joined(
		reading("get_discussion", "get_discussion_comments").worth(Critical),
		reading("list_discussions").worth(Supporting),
		reading("list_discussion_categories").worth(Optional),
	)
}

func githubGists() toolTable {
	return reading("get_gist", "list_gists").worth(Supporting)
}

func githubRepositories() toolTable {
	return reading("search_repositories", "list_starred_repositories", "list_repository_collaborators").worth(Optional)
}

func githubPeople() toolTable {
	return reading("get_me", "get_teams", "get_team_members", "search_users", "search_orgs").worth(Optional)
}
