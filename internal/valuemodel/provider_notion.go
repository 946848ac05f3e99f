package valuemodel

// notionProviders returns Notion's server. An identifier has two spellings,
// with dashes and without, and a page is a block too: no edge is matched.
func notionProviders() []Provider {
	content := joined(
		reading("API-retrieve-a-page", "API-retrieve-page-markdown", "API-get-block-children").worth(Critical),
		reading("API-retrieve-a-block", "API-retrieve-a-page-property").worth(Supporting),
		reading("API-post-search", "API-query-data-source").worth(Supporting), // marked as destructive: they are POSTs
		reading("API-retrieve-a-data-source", "API-list-data-source-templates", "API-retrieve-a-database").worth(Optional),
	)
	comments := reading("API-retrieve-a-comment").worth(Supporting)
	return []Provider{{
		Name:    "notion",
		Servers: []string{"notion api"},
		Host:    "api.notion.com",
		Tools: joined(content, comments,
			reading("API-get-user", "API-get-users", "API-get-self").worth(Optional),
			writingThere("API-post-page", "API-patch-page", "API-move-page").stales(stale(names(content, comments)...)),
			writingThere("API-update-page-markdown").stales(stale(names(content, comments)...)),
			writingThere("API-patch-block-children", "API-update-a-block", "API-delete-a-block").stales(stale(names(content, comments)...)),
			writingThere("API-create-a-data-source", "API-update-a-data-source").stales(stale(names(content)...)),
			writingThere("API-create-a-comment").stales(stale(names(comments)...)),
		),
	}}
}
