package valuemodel

import "slices"

// clientProviders returns the defaults for the tools that a coding client has
// built in. They hold only where an upstream is said to be one: a tool that
// happens to be called Read is not this Read.
//
// Sizes and probabilities: paper3_tool_volume.csv and
// paper3_followup_edges_lag1_complete.csv of the corpus, meteora-pro/devboy-tools,
// Apache-2.0. A probability is the number of times the one tool directly
// followed the other, by the calls of the other. Which file of a list of matches
// is read next is left to what is learned.
func clientProviders() []Provider {
	reads := clientReads()
	lists := joined(
		reading("TodoRead", "TaskGet").live().worth(AuditOnly),
		reading("TaskList").live().worth(AuditOnly).chars(390, 6274),
	)
	web := joined(
		// Each search is billed.
		reading("WebSearch").abroad().unguessed().chars(3100, 9218).leadsTo(follow("WebFetch", 323./1674)),
		reading("WebFetch").abroad().urlIn("url").chars(1145, 49616),
	)
	other := joined(
		reading("ToolSearch").givesUpAfter(2).chars(0, 118), // most repeats find nothing either
		reading("ListMcpResourcesTool", "ReadMcpResourceTool").live().unguessed(),
	)
	// A command may push, or write to where the repository is hosted.
	anything := stale(slices.Concat(fileReaders(), names(lists, other), []string{"WebSearch"}, hosted())...)
	return []Provider{{
		Name: "claude-code",
		Tools: joined(reads, lists, web, other,
			writingHere("Edit").chars(162, 28509).stales(staleSame("file_path", "Read"), staleFiles("Read")),
			writingHere("Write").chars(137, 55148).stales(staleSame("file_path", "Read"), staleFiles("Read")),
			writingHere("MultiEdit").stales(staleSame("file_path", "Read"), staleFiles("Read")),
			writingHere("NotebookEdit").stales(staleSame("notebook_path", "NotebookRead"), staleFiles("NotebookRead")),

			// What the agent notes for itself: nothing else reads it.
			writingHere("TodoWrite").worth(AuditOnly).chars(160, 268).stales(stale("TodoRead")),
			writingHere("TaskCreate").worth(AuditOnly).chars(78, 130).stales(stale("TaskGet", "TaskList")),
			writingHere("TaskUpdate").worth(AuditOnly).chars(23, 186).stales(stale("TaskGet", "TaskList")),

			unsure("Bash").classify(Shell).chars(223, 30030).stales(anything),
			unsure("Agent").chars(6604, 40265).stales(anything),
			unsure("Task").chars(9017, 41762).stales(anything),
			unsure("Skill").chars(36, 85).stales(anything),
			unsure("SlashCommand").stales(anything),
			unsure("KillShell", "KillBash").stales(anything),
			unsure("TaskStop").chars(493, 2175).stales(anything),
			unsure("Monitor").chars(208, 677).stales(anything),
			// Each gives what is new since it was last asked, or waits for it:
			// asking takes it away from the next to ask.
			unsure("BashOutput", "AgentOutputTool"),
			unsure("TaskOutput").chars(173, 32182),
			// These ask the user.
			unsure("AskUserQuestion").chars(246, 3758),
			unsure("ExitPlanMode").chars(502, 44931).stales(anything),
			unsure("EnterPlanMode").chars(581, 598),
			unsure("ScheduleWakeup").chars(45, 45),
		),
	}}
}

// clientReads are the client's readers of local files. Not one of them is pure:
// files change.
func clientReads() toolTable {
	return joined(
		reading("Read").worth(Critical).file("file_path").chars(2473, 97432),
		reading("NotebookRead").worth(Critical).file("notebook_path"),
		reading("Grep").worth(Critical).chars(246, 19813).leadsTo(follow("Read", 5915./16718)),
		reading("Glob").worth(Supporting).chars(156, 25305).leadsTo(follow("Read", 2007./6202)),
		reading("LS", "LSP").worth(Supporting),
	)
}
