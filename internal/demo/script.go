package demo

import "time"

// call is one tool call of the agent.
type call struct {
	Server string         // tracker or files
	Tool   string         // as that server names it
	Args   map[string]any // exactly as sent
	into   any            // where its answer is decoded to
}

// turn is one turn of the agent: it thinks, then makes its calls together.
type turn struct {
	Think time.Duration // in life; 2–6 s, but none before the first turn
	Calls func() []call // from what the agent has read so far
}

// script is the session: somebody asked the agent to triage the open bugs. It
// finds a serious one, its history and its cause in the code, writes that
// down, closes a duplicate, and goes on to the next bug.
func script(m *memory) []turn {
	bugs := func() call {
		return call{tracker, "list_issues", map[string]any{"state": "open", "label": "bug"}, &m.open}
	}
	get := func(number int, into *issue) call {
		return call{tracker, "get_issue", map[string]any{"issue_number": number}, into}
	}
	talk := func(number int, into *commentList) call {
		return call{tracker, "get_issue_comments", map[string]any{"issue_number": number}, into}
	}
	read := func(path string, into *content) call {
		return call{files, "read_file", map[string]any{"path": path}, into}
	}
	const s = time.Second
	return []turn{
		{0, func() []call { return []call{bugs()} }},
		{3 * s, func() []call {
			n := at(m.open.Items, 0).Number
			return []call{get(n, &m.first), talk(n, &m.firstTalk)}
		}},
		{5 * s / 2, func() []call { return []call{get(at(m.open.Items, 1).Number, &m.bug)} }},
		{2 * s, func() []call { return []call{talk(m.bug.Number, &m.bugTalk)} }},
		{4 * s, func() []call {
			return []call{
				{tracker, "search_issues", map[string]any{"query": m.logLine()}, &m.alike},
				get(m.mentionedNumber(), &m.mentioned),
			}
		}},
		{3 * s, func() []call { return []call{talk(m.twinNumber(), &m.twinTalk)} }},
		{9 * s / 2, func() []call {
			return []call{
				{files, "list_directory", map[string]any{"path": m.area()}, &m.dir},
				{files, "search_files", map[string]any{"query": m.function()}, &m.uses},
			}
		}},
		{7 * s / 2, func() []call {
			used := m.usedIn()
			return []call{read(at(used, 0), &m.code[0]), read(at(used, 1), &m.code[1])}
		}},
		{6 * s, func() []call { return []call{read(m.testFile(), &m.test)} }},
		{5 * s, func() []call { return []call{read(m.contractFile(), &m.contract)} }},
		{6 * s, func() []call { return []call{m.explain()} }},
		{2 * s, func() []call { return []call{get(m.bug.Number, &m.bug), bugs()} }},
		{3 * s, func() []call { return []call{m.closeTwin()} }},
		{2 * s, func() []call { return []call{bugs()} }},
		{4 * s, func() []call { return []call{get(m.nextNumber(), &m.next)} }},
	}
}
