package valuemodel

import "slices"

// atlassianProviders returns the servers of Jira and Confluence: the
// community's (sooperset/mcp-atlassian) and Atlassian's remote one. Most sites
// have a host of their own, so none is named.
//
// An issue's answer may show its links, subtasks and parent, with their states,
// so what changes an issue itself is not matched; what is added to it is. The
// remote server takes a key or a number for the same issue: nothing of it is
// matched.
//
// Probability: as for GitHub.
func atlassianProviders() []Provider {
	jira, confluence := jiraTools(), confluenceTools()
	both := reading("search", "fetch", "atlassianUserInfo", "getAccessibleAtlassianResources").worth(Supporting)
	return []Provider{{
		Name:    "atlassian",
		Servers: []string{"atlassian mcp", "mcp-atlassian", "atlassian-mcp-server"},
		Tools:   joined(both, jira, confluence),
	}, {
		Name:  "jira",
		Tools: joined(both, jira),
	}, {
		Name:  "confluence",
		Tools: joined(both, confluence),
	}}
}

func jiraTools() toolTable {
	one := joined(
		// It adds to the user's history of issues viewed, unless it is told not to.
		reading("jira_get_issue").worth(Critical).unguessed(),
		reading("jira_get_worklog", "jira_get_issue_watchers", "jira_get_issue_dates", "jira_get_issue_sla").worth(Critical),
	)
	forms := reading("jira_get_issue_proforma_forms", "jira_get_proforma_form_details").worth(Supporting)
	issues := joined(one, forms,
		reading("jira_search").worth(Supporting).leadsTo(follow("jira_get_issue", 0.29, "issue_key", "$result.issues[*].key")),
		reading("jira_get_project_issues", "jira_get_board_issues", "jira_get_sprint_issues", "jira_get_queue_issues").worth(Supporting),
		reading("jira_get_transitions", "jira_batch_get_changelogs", "jira_search_assignable_users").worth(Supporting),
		reading("jira_get_issue_development_info", "jira_get_issues_development_info").worth(Supporting),
		reading("jira_get_project_epic_hierarchy", "jira_get_cross_project_dependencies").worth(Supporting),
		reading("jira_get_issue_images").worth(Supporting),
	)
	plans := joined(
		reading("jira_get_all_projects", "jira_search_projects", "jira_get_project_versions", "jira_get_project_components").worth(Optional),
		reading("jira_get_agile_boards", "jira_get_sprints_from_board").worth(Optional),
		reading("jira_get_project_issue_types", "jira_get_create_fields", "jira_get_project_fields").worth(Optional),
		reading("jira_search_fields", "jira_get_field_options", "jira_get_link_types", "jira_get_user_profile").worth(Optional),
		reading("jira_get_service_desk_for_project", "jira_get_service_desk_queues").worth(Optional),
		reading("jira_get_request_types", "jira_get_request_type_fields").worth(Optional),
	)
	remote := joined(
		reading("getJiraIssue", "getJiraIssueRemoteIssueLinks", "getTransitionsForJiraIssue").worth(Critical),
		reading("searchJiraIssuesUsingJql").worth(Supporting).leadsTo(
			follow("getJiraIssue", 0.29, "cloudId", "$args.cloudId", "issueIdOrKey", "$result.issues[*].key"),
		),
		reading("getVisibleJiraProjects", "getJiraProjectIssueTypesMetadata", "getJiraIssueTypeMetaWithFields", "lookupJiraAccountId").worth(Optional),
	)
	// Both servers may be at the same site, each a domain of its own.
	elsewhere := append(stale(names(remote)...), stale("search", "fetch")...)
	added := slices.Concat(staleSame("issue_key", names(one, forms)...), stale(without(names(issues), names(one, forms)...)...), elsewhere)
	changed := append(stale(names(issues, plans)...), elsewhere...)
	return joined(issues, plans, remote,
		writingThere("jira_add_comment", "jira_edit_comment", "jira_add_worklog", "jira_create_remote_issue_link").stales(added),
		writingThere("jira_add_watcher", "jira_remove_watcher", "jira_update_proforma_form_answers").stales(added),
		writingThere("jira_create_issue", "jira_batch_create_issues", "jira_create_customer_request").stales(changed),
		writingThere("jira_update_issue", "jira_assign_issue", "jira_delete_issue", "jira_move_issue", "jira_transition_issue").stales(changed),
		writingThere("jira_link_to_epic", "jira_create_issue_link", "jira_remove_issue_link").stales(changed),
		writingThere("jira_create_sprint", "jira_update_sprint", "jira_add_issues_to_sprint", "jira_move_issues_to_backlog").stales(changed),
		writingThere("jira_create_version", "jira_batch_create_versions", "jira_update_version").stales(changed),
		unsure("jira_download_attachments").stales(staleFiles()), // into a folder, in some versions
		writingThere("createJiraIssue", "editJiraIssue", "transitionJiraIssue").stales(changed),
		writingThere("addCommentToJiraIssue", "addWorklogToJiraIssue", "createIssueLink").stales(changed),
	)
}

func confluenceTools() toolTable {
	// Each answers for the one page that page_id names.
	one := reading("confluence_get_page", "confluence_get_comments", "confluence_get_inline_comments", "confluence_get_labels").worth(Critical)
	pages := joined(one,
		reading("confluence_search", "confluence_get_page_children", "confluence_get_space_page_tree").worth(Supporting),
		reading("confluence_get_page_history", "confluence_get_page_diff", "confluence_get_page_restrictions").worth(Supporting),
		reading("confluence_get_attachments", "confluence_get_page_images").worth(Supporting),
		reading("confluence_download_attachment", "confluence_download_content_attachments").unguessed(),
		reading("confluence_check_content_permissions", "confluence_get_space_permissions").worth(Optional),
		reading("confluence_list_page_templates", "confluence_get_page_template", "confluence_search_user").worth(Optional),
		reading("confluence_get_page_views").worth(Optional).live(),
	)
	remote := joined(
		reading("getConfluencePage", "getConfluencePageFooterComments", "getConfluencePageInlineComments").worth(Critical),
		reading("getConfluencePageDescendants", "getPagesInConfluenceSpace", "searchConfluenceUsingCql").worth(Supporting),
		reading("getConfluenceSpaces").worth(Optional),
	)
	elsewhere := append(stale(names(remote)...), stale("search", "fetch")...)
	onPage := slices.Concat(staleSame("page_id", names(one)...), stale(without(names(pages), names(one)...)...), elsewhere)
	anywhere := append(stale(names(pages)...), elsewhere...)
	return joined(pages, remote,
		writingThere("confluence_add_comment", "confluence_add_inline_comment", "confluence_add_label").stales(onPage),
		writingThere("confluence_reply_to_comment", "confluence_set_page_restrictions").stales(anywhere),
		writingThere("confluence_create_page", "confluence_create_page_from_template", "confluence_copy_page").stales(anywhere),
		// A page may show others, and its title stands in theirs.
		writingThere("confluence_update_page", "confluence_update_page_section", "confluence_delete_page", "confluence_move_page").stales(anywhere),
		writingThere("confluence_upload_attachment", "confluence_upload_attachments", "confluence_delete_attachment").stales(anywhere),
		writingThere("createConfluencePage", "updateConfluencePage").stales(anywhere),
		writingThere("createConfluenceFooterComment", "createConfluenceInlineComment").stales(anywhere),
	)
}
