package valuemodel

import "slices"

// trackerProviders returns the servers of task trackers and meeting notes.
//
// Those of devboy-tools are the ones the corpus was recorded with: sizes and
// probabilities are from its paper3_tool_volume.csv (the busiest installation
// of each tool) and derived_mcp_verb_transitions.csv, meteora-pro/devboy-tools,
// Apache-2.0.
func trackerProviders() []Provider {
	return []Provider{devboyProvider(), clickupProvider(), {
		Name:    "fireflies",
		Servers: []string{"fireflies-mcp-server"},
		Host:    "api.fireflies.ai",
		Tools: joined(
			reading("fireflies_get_transcripts", "fireflies_search", "fireflies_search_transcripts").worth(Supporting),
			reading("fireflies_get_transcript", "fireflies_get_transcript_details", "fireflies_fetch", "fireflies_get_summary").worth(Critical),
			reading("fireflies_get_user", "fireflies_get_usergroups", "fireflies_get_user_contacts").worth(Optional),
			unsure("fireflies_generate_summary"),
		),
	}}
}

// devboyReads are of its issues and code, wherever those are hosted.
func devboyReads() toolTable {
	issues := joined(
		reading("get_issues").worth(Supporting).chars(816, 32668).leadsTo(follow("get_issue_relations", 0.079, "key", "$result[*].key")),
		reading("get_issue").worth(Critical).chars(3484, 16553),
		reading("get_issue_relations").worth(Supporting).chars(256, 1495).leadsTo(follow("get_issue_comments", 0.527, "key", "$args.key")),
		reading("get_issue_comments").worth(Critical).chars(219, 7090),
		reading("get_epics").worth(Supporting).chars(5778, 45275),
		reading("get_project_info").worth(Optional).chars(1808, 1808).leadsTo(follow("get_epics", 0.521)),
	)
	merges := joined(
		reading("get_merge_requests").worth(Supporting).chars(293, 2997).leadsTo(follow("get_merge_request_discussions", 0.321, "key", "$result[*].key")),
		reading("get_merge_request").worth(Critical),
		reading("get_merge_request_discussions").worth(Critical).chars(12615, 50276),
		reading("get_merge_request_diffs").worth(Critical).chars(19921, 45495),
	)
	runs := joined(
		reading("get_branch_pipeline").worth(Supporting).chars(5283, 33350).live().givesUpAfter(3),
		reading("get_pipeline").worth(Supporting).chars(4024, 28134).live().givesUpAfter(3),
		reading("get_merge_request_pipeline").worth(Supporting).chars(3895, 36396).live().givesUpAfter(3),
		reading("get_job_logs").worth(Critical).chars(4880, 29529).live().unguessed(),
	)
	return joined(issues, merges, runs)
}

func devboyProvider() Provider {
	talk := joined(
		reading("get_messenger_chats").worth(Optional).chars(214, 214).leadsTo(follow("get_chat_messages", 0.185)),
		reading("get_chat_messages").worth(Supporting).chars(2554, 11548).live(),
	)
	meetings := joined(
		reading("search_meeting_notes").worth(Supporting).chars(35, 781).leadsTo(follow("get_meeting_transcript", 0.44)),
		reading("get_meeting_notes").worth(Supporting).chars(908, 2985),
		reading("get_meeting_transcript").worth(Critical).chars(117, 46459),
	)
	// It writes to GitLab, GitHub or ClickUp, which another server may read.
	tracker := slices.Concat(hosted(), names(clickupReads()))
	slices.Sort(tracker)
	anywhere := stale(slices.Compact(tracker)...)
	return Provider{
		Name:    "devboy",
		Servers: []string{"devboy-mcp"},
		Tools: joined(devboyReads(), talk, meetings,
			writingThere("create_issue").chars(2389, 6753).stales(anywhere),
			writingThere("update_issue").chars(2171, 8377).stales(anywhere),
			writingThere("create_epic", "link_issues").stales(anywhere),
			writingThere("create_issue_comment", "add_issue_comment").chars(690, 2863).stales(anywhere),
			writingThere("create_merge_request").chars(2199, 3831).stales(anywhere),
			writingThere("create_merge_request_comment").chars(1046, 4470).stales(anywhere),
			writingThere("send_message").chars(1996, 3376).stales(stale(names(talk)...)),
			writingThere("create_knowledge_base_page"),
		),
	}
}

func clickupReads() toolTable {
	return joined(
		reading("clickup_get_task", "clickup_get_task_comments", "get_task", "get_comments", "get_comment_replies").worth(Critical),
		reading("clickup_search", "get_workspace_tasks", "get_task_links", "get_sprint_tasks", "get_active_sprint", "list_sprints").worth(Supporting),
		reading("clickup_get_workspace_hierarchy", "clickup_get_list", "clickup_get_folder").worth(Supporting),
		reading("list_lists", "get_list", "list_folders", "get_folder", "list_spaces", "get_space").worth(Supporting),
		reading("clickup_list_document_pages", "clickup_get_document_pages").worth(Supporting),
		reading("list_documents", "get_document", "list_document_pages", "get_document_page", "get_document_pages").worth(Supporting),
		reading("clickup_get_workspace_members", "clickup_find_member_by_name", "clickup_resolve_assignees").worth(Optional),
		reading("list_space_tags", "list_custom_fields", "list_attachments", "get_attachment").worth(Optional),
		reading("clickup_get_task_time_entries", "get_time_entries", "get_time_in_status").worth(Supporting),
		reading("clickup_get_current_time_entry", "get_current_time_entry").live(),
		reading("clickup_get_chat_channels", "list_chat_channels", "get_chat_channel").worth(Optional),
		reading("get_chat_messages", "get_chat_message_replies").worth(Supporting).live(),
	)
}

// clickupProvider knows ClickUp's own server and the community's
// (taazkareem/clickup-mcp-server), whose tasks go by number, custom number or
// name: no edge is matched.
func clickupProvider() Provider {
	reads := clickupReads()
	everything := stale(names(reads)...)
	return Provider{
		Name:    "clickup",
		Servers: []string{"clickup", "clickup-mcp-server"},
		Host:    "api.clickup.com",
		Tools: joined(reads,
			writingThere("clickup_create_task", "clickup_update_task", "clickup_create_bulk_tasks", "clickup_update_bulk_tasks").stales(everything),
			writingThere("create_task", "update_task", "delete_task", "move_task", "duplicate_task").stales(everything),
			writingThere("create_bulk_tasks", "update_bulk_tasks", "delete_bulk_tasks", "move_bulk_tasks").stales(everything),
			writingThere("clickup_create_task_comment", "create_comment", "update_comment", "delete_comment", "create_comment_reply").stales(everything),
			writingThere("clickup_attach_task_file", "upload_attachment").stales(everything),
			writingThere("clickup_add_tag_to_task", "clickup_remove_tag_from_task", "add_tag_to_task", "remove_tag_from_task").stales(everything),
			writingThere("set_custom_field_value", "remove_custom_field_value", "create_custom_field").stales(everything),
			writingThere("add_task_link", "delete_task_link", "add_task_dependency", "delete_task_dependency").stales(everything),
			writingThere("add_task_to_list", "remove_task_from_list").stales(everything),
			writingThere("clickup_start_time_tracking", "clickup_stop_time_tracking", "clickup_add_time_entry").stales(everything),
			writingThere("start_time_entry", "stop_time_entry", "add_time_entry", "update_time_entry", "delete_time_entry").stales(everything),
			writingThere("clickup_create_list", "clickup_create_list_in_folder", "clickup_update_list").stales(everything),
			writingThere("create_list", "update_list", "delete_list", "move_list").stales(everything),
			writingThere("clickup_create_folder", "clickup_update_folder").stales(everything),
			writingThere("create_folder", "update_folder", "delete_folder", "move_folder").stales(everything),
			writingThere("create_space", "update_space", "delete_space").stales(everything),
			writingThere("clickup_create_document", "clickup_create_document_page", "clickup_update_document_page").stales(everything),
			writingThere("create_document", "create_document_page", "update_document_page").stales(everything),
			writingThere("clickup_send_chat_message", "create_chat_message", "create_chat_message_reply").stales(everything),
		).showIn(names(devboyReads())...),
	}
}
