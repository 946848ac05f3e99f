package demo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// memory is what the agent has read, and all it knows: the script takes every
// number, path and query from here. Its methods read as a model would, and
// return nothing where there is nothing to be read; the call made with that
// fails and says so.
type memory struct {
	open      issueList // the open bugs, as listed last
	first     issue     // the top of the first list
	firstTalk commentList
	bug       issue // the one worth the session
	bugTalk   commentList
	alike     issueList // what a search for its log line finds
	mentioned issue     // the issue that a comment on it names
	twin      issue     // an open duplicate
	twinTalk  commentList
	dir       listing    // the directory of the bug's area
	uses      matches    // where the function of the stack trace is used
	code      [2]content // the first two files of those
	test      content
	contract  content
	next      issue
}

// logLine is what the bug's report quotes.
func (m *memory) logLine() string { return found("`([^`]+)`", m.bug.Body) }

// mentionedNumber is the issue that the comments on the bug name.
func (m *memory) mentionedNumber() int {
	var n int
	fmt.Sscan(found(`#(\d+)`, m.bugTalk.text()), &n)
	return n
}

// function is the one that the comments on the bug say the stack ends in.
func (m *memory) function() string { return found(`(\w+)\(\)`, m.bugTalk.text()) }

// area is the directory that the bug's labels name.
func (m *memory) area() string { return found(`area/(\S+)`, strings.Join(m.bug.Labels, " ")) }

// twinNumber is the open issue that shows the same log line as the bug.
func (m *memory) twinNumber() int {
	i := slices.IndexFunc(m.alike.Items, func(s summary) bool {
		return s.State == "open" && s.Number != m.bug.Number
	})
	return at(m.alike.Items, i).Number
}

// usedIn is the files that use the function, tests aside.
func (m *memory) usedIn() []string {
	var paths []string
	for _, u := range m.uses.Items {
		if !strings.HasSuffix(u.Path, "_test.go") && !slices.Contains(paths, u.Path) {
			paths = append(paths, u.Path)
		}
	}
	return paths
}

// testFile is the tests beside the code.
func (m *memory) testFile() string {
	i := slices.IndexFunc(m.dir.Entries, func(e entry) bool { return strings.HasSuffix(e.Name, "_test.go") })
	return at(m.dir.Entries, i).Path
}

// contractFile is the document that the code refers to.
func (m *memory) contractFile() string {
	return found(`(docs/\S+\.md)`, m.code[0].Content+m.code[1].Content)
}

// explain writes the cause into the bug and gives it to whoever offered.
func (m *memory) explain() call {
	caller := m.code[1].Path
	i := slices.IndexFunc(m.uses.Items, func(u match) bool { return u.Path == caller })
	return call{tracker, "update_issue", map[string]any{
		"issue_number": m.bug.Number,
		"labels":       slices.Concat(m.bug.Labels, []string{"confirmed"}),
		"assignee":     at(m.bugTalk.Comments, len(m.bugTalk.Comments)-1).Author,
		"comment": fmt.Sprintf("%s:%d calls %s with the id of the event. A retry has a new one (%s), so the key never matches. Same cause as #%d.",
			caller, at(m.uses.Items, i).Line, m.function(), m.contract.Path, m.twinNumber()),
	}, &m.bug}
}

// closeTwin closes the duplicate.
func (m *memory) closeTwin() call {
	return call{tracker, "update_issue", map[string]any{
		"issue_number": m.twinNumber(),
		"state":        "closed",
		"comment":      fmt.Sprintf("Duplicate of #%d.", m.bug.Number),
	}, &m.twin}
}

// nextNumber is the first open bug not looked at yet.
func (m *memory) nextNumber() int {
	i := slices.IndexFunc(m.open.Items, func(s summary) bool {
		return s.Number != m.first.Number && s.Number != m.bug.Number
	})
	return at(m.open.Items, i).Number
}

// text is what was said, one comment a line.
func (l commentList) text() string {
	var b strings.Builder
	for _, c := range l.Comments {
		b.WriteString(c.Body + "\n")
	}
	return b.String()
}

// found is what the group of pattern matches first in text, "" if nothing.
func found(pattern, text string) string {
	return at(regexp.MustCompile(pattern).FindStringSubmatch(text), 1)
}

// at is s[i], or nothing if there is none.
func at[T any](s []T, i int) (none T) {
	if i < 0 || i >= len(s) {
		return none
	}
	return s[i]
}
