package valuemodel_test

import (
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/valuemodel"
)

func allProviders() []valuemodel.Provider {
	var all []valuemodel.Provider
	for _, name := range valuemodel.ProviderNames() {
		p, _ := valuemodel.ProviderNamed(name)
		all = append(all, p)
	}
	return all
}

// eachTool runs check on every tool of every provider.
func eachTool(t *testing.T, check func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer)) {
	t.Helper()
	for _, p := range allProviders() {
		t.Run(p.Name, func(t *testing.T) {
			for tool, layer := range p.Tools {
				check(t, p, tool, layer)
			}
		})
	}
}

func TestProvidersHaveNamesOfTheirOwn(t *testing.T) {
	owner := map[string]string{}
	claim := func(key, provider string) {
		if first, taken := owner[key]; taken {
			t.Errorf("%s is both %s and %s", key, first, provider)
		}
		owner[key] = provider
	}
	for _, p := range allProviders() {
		claim("provider "+p.Name, p.Name)
		for _, server := range p.Servers {
			claim("server "+server, p.Name)
			if server != strings.ToLower(server) {
				t.Errorf("%s: server %q is not in lower case", p.Name, server)
			}
		}
		if len(p.Tools) == 0 {
			t.Errorf("%s: no tools", p.Name)
		}
	}
}

func TestProvidersLeaveTheOperatorsWordToHim(t *testing.T) {
	eachTool(t, func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer) {
		if l.InvalidatesOnly != nil {
			t.Errorf("%s: sets invalidates_only", tool)
		}
		if l.Speculate != nil && *l.Speculate {
			t.Errorf("%s: sets speculate", tool)
		}
		if tool != "*" && l.Class == "" {
			t.Errorf("%s: no class", tool)
		}
		if tool == "*" && (l.Class.Reads() || l.Classify != "" || l.Validate.File != "" || l.Cost.Freshness != 0) {
			t.Errorf(`"*" loosens: %+v`, l)
		}
	})
}

func TestStatefulProvidersOfferNothingToStore(t *testing.T) {
	stateful := 0
	eachTool(t, func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer) {
		if !p.Stateful {
			return
		}
		stateful++
		if l.Class.Reads() || l.Classify != "" {
			t.Errorf("%s: got class %s, classify %q of a stateful server", tool, l.Class, l.Classify)
		}
	})
	if stateful == 0 {
		t.Error("no provider is stateful: the test proves nothing")
	}
}

// readable reports whether an answer of the tool may ever be cached.
func readable(l valuemodel.Layer) bool { return l.Class.Reads() || l.Classify != "" }

func TestEdgesNameToolsThatRead(t *testing.T) {
	anywhere := map[string]bool{}
	for _, p := range allProviders() {
		for tool, l := range p.Tools {
			anywhere[tool] = anywhere[tool] || readable(l)
		}
	}
	eachTool(t, func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer) {
		for _, edge := range l.Invalidates {
			target, own := p.Tools[edge.Tool]
			switch {
			case own && !readable(target):
				t.Errorf("%s -> %s: the target's answers are never cached", tool, edge.Tool)
			case !own && !anywhere[edge.Tool]:
				t.Errorf("%s -> %s: no such tool", tool, edge.Tool)
			case !own && edge.Match != nil:
				t.Errorf("%s -> %s: matched with a tool of another server", tool, edge.Tool)
			}
		}
		if l.Class.Reads() && len(l.Invalidates) > 0 {
			t.Errorf("%s: reads, and makes answers stale", tool)
		}
	})
}

// A write without edges would change nothing if the operator set invalidates_only, so only listed
// tools may have none.
func TestWritesSayWhatTheyMakeStale(t *testing.T) {
	nothing := []string{
		"AgentOutputTool", "AskUserQuestion", "BashOutput", "confirm_cost", "EnterPlanMode", "ScheduleWakeup", "TaskOutput",
		"create_knowledge_base_page", "discover_tools", "fireflies_generate_summary", "generate_deeplink",
		"gzip-file-as-resource", "simulate-research-query", "toggle-simulated-logging", "toggle-subscriber-updates",
		"upload_markdown",
	}
	eachTool(t, func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer) {
		writes := !p.Stateful && !l.Class.Reads()
		if none := len(l.Invalidates) == 0; writes && none != slices.Contains(nothing, tool) {
			t.Errorf("%s: got %d edges, want none: %v", tool, len(l.Invalidates), !none)
		}
	})
}

// Reads of local files have edges from all tools that write local files. Reads of hosted
// repositories have edges from all tools that may push to them.
func TestWritesReachTheReadersOfOtherServers(t *testing.T) {
	tests := []struct{ provider, writer, reader string }{
		{"filesystem", "write_file", "read_text_file"},
		{"filesystem", "write_file", "Read"},
		{"filesystem", "move_file", "search"},
		{"claude-code", "Edit", "Bash"},
		{"claude-code", "Edit", "git_status"},
		{"claude-code", "Edit", "fetch"},
		{"git", "git_checkout", "read_file"},
		{"git", "git_push", "pull_request_read"},
		{"git-cyanheads", "git_pull", "Grep"},
		{"mcp-language-server", "edit_file", "go_diagnostics"},
		{"gitlab", "download_job_artifacts", "list_directory"},
		{"ripgrep", "advanced-search", "Read"},

		// Services that several servers access.
		{"claude-code", "Bash", "pull_request_read"},
		{"claude-code", "Bash", "get_merge_request"},
		{"claude-code", "Agent", "list_issues"},
		{"claude-code", "Task", "issue_read"},
		{"claude-code", "Skill", "list_pipelines"},
		{"claude-code", "SlashCommand", "list_commits"},
		{"git", "git_push", "get_merge_requests"},
		{"devboy", "create_issue", "issue_read"},
		{"devboy", "add_issue_comment", "mr_discussions"},
		{"devboy", "update_issue", "clickup_get_task"},
		{"devboy", "create_merge_request", "list_pull_requests"},
		{"github", "issue_write", "get_issues"},
		{"github", "update_issue_title", "get_issues"},
		{"github", "resolve_review_thread", "get_merge_requests"},
		{"gitlab", "update_issue", "get_issue_comments"},
		{"clickup", "clickup_update_task", "get_issue_relations"},
		{"atlassian", "jira_update_issue", "getJiraIssue"},
		{"atlassian", "jira_add_comment", "fetch"},
		{"jira", "editJiraIssue", "jira_get_issue"},
		{"confluence", "confluence_add_comment", "getConfluencePage"},
		{"confluence", "updateConfluencePage", "confluence_search"},
		{"confluence", "updateConfluencePage", "search"},
	}
	for _, tt := range tests {
		edges := providerNamed(t, tt.provider).Tools[tt.writer].Invalidates
		if !slices.ContainsFunc(edges, func(e valuemodel.Edge) bool { return e.Tool == tt.reader }) {
			t.Errorf("%s/%s: no edge to %s", tt.provider, tt.writer, tt.reader)
		}
	}
}

func TestFollowUpsLeadToReads(t *testing.T) {
	eachTool(t, func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer) {
		for _, next := range l.FollowUps {
			target, there := p.Tools[next.Tool]
			switch {
			case !there:
				t.Errorf("%s -> %s: no such tool", tool, next.Tool)
			case !target.Class.Reads():
				t.Errorf("%s -> %s: is %s", tool, next.Tool, target.Class)
			case next.Probability <= 0 || next.Probability > 1:
				t.Errorf("%s -> %s: got probability %v, want one of 0 to 1", tool, next.Tool, next.Probability)
			}
		}
	})
}

// Tools with validate read local files, and need no freshness.
func TestValidatedToolsReadLocalFiles(t *testing.T) {
	eachTool(t, func(t *testing.T, p valuemodel.Provider, tool string, l valuemodel.Layer) {
		if l.Validate.File == "" {
			return
		}
		if p.Host != "" || !l.Class.Reads() || l.Cost.Freshness != 0 {
			t.Errorf("%s: validates %q, with host %q, class %s, freshness %s", tool, l.Validate.File, p.Host, l.Class, l.Cost.Freshness)
		}
	})
}

// Tools that fetch from documentation sites or other third parties disclose their arguments to
// them. A fetched page has no freshness, as no write invalidates it.
func TestToolsThatAskThirdParties(t *testing.T) {
	tests := map[string][]string{ // provider → tools
		"grafana":     {"search_docs", "search_plugin_information", "get_doc"},
		"gitlab":      {"validate_ci_lint", "validate_project_ci_lint"},
		"fetch":       {"fetch"},
		"claude-code": {"WebFetch"},
	}
	for provider, tools := range tests {
		for _, tool := range tools {
			l := providerNamed(t, provider).Tools[tool]
			if l.Disclosure != valuemodel.ThirdParty || strings.HasSuffix(strings.ToLower(tool), "fetch") && l.Cost.Freshness != 0 {
				t.Errorf("%s/%s: got disclosure %q, freshness %s", provider, tool, l.Disclosure, l.Cost.Freshness)
			}
		}
	}
}
