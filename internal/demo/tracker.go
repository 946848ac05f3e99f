package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// summary is an issue as lists and searches show it.
type summary struct {
	Number    int      `json:"number"`
	Title     string   `json:"title"`
	State     string   `json:"state"` // open or closed
	Labels    []string `json:"labels"`
	Comments  int      `json:"comments"`
	UpdatedAt string   `json:"updated_at"` // RFC 3339
}

// issue is one read by itself.
type issue struct {
	summary
	Author    string `json:"author"`
	Assignee  string `json:"assignee"` // "": nobody
	CreatedAt string `json:"created_at"`
	Body      string `json:"body"`
}

// comment is one comment on an issue.
type comment struct {
	ID        int    `json:"id"`
	Author    string `json:"author"`
	CreatedAt string `json:"created_at"`
	Body      string `json:"body"`
}

type issueList struct {
	Total int       `json:"total"` // before paging
	Items []summary `json:"items"` // last updated first
}

type commentList struct {
	Number   int       `json:"number"` // of the issue
	Comments []comment `json:"comments"`
}

// issues is the state of the tracker.
type issues struct {
	mu     sync.Mutex // guards all below
	byID   map[int]*issue
	talk   map[int][]comment // issue number → comments, oldest first
	now    time.Time         // of the last write: a minute passes with each, none with a read
	nextID int               // of the next comment
}

type listArgs struct {
	State   string `json:"state"`
	Label   string `json:"label"`
	Page    int    `json:"page"`
	PerPage int    `json:"per_page"`
}

type issueArgs struct {
	Number int `json:"issue_number"`
}

type searchArgs struct {
	Query string `json:"query"`
}

type updateArgs struct {
	Number   int      `json:"issue_number"`
	State    string   `json:"state"`
	Labels   []string `json:"labels"`
	Assignee string   `json:"assignee"`
	Comment  string   `json:"comment"`
}

// trackerTools is what the tracker offers, over issues of its own.
func trackerTools() []server.ServerTool {
	t := newIssues()
	number := mcp.WithInteger("issue_number", mcp.Required(), mcp.Min(1), mcp.Description("the issue's number"))
	return []server.ServerTool{
		tool(mcp.NewTool("list_issues", reads(),
			mcp.WithDescription("List issues, last updated first."),
			mcp.WithString("state", mcp.Enum("open", "closed", "all"), mcp.DefaultString("open")),
			mcp.WithString("label", mcp.Description("only issues with this label")),
			mcp.WithInteger("page", mcp.Min(1), mcp.DefaultNumber(1)),
			mcp.WithInteger("per_page", mcp.Min(1), mcp.Max(50), mcp.DefaultNumber(10)),
		), t.list),
		tool(mcp.NewTool("get_issue", reads(), number,
			mcp.WithDescription("Read one issue."),
		), t.get),
		tool(mcp.NewTool("get_issue_comments", reads(), number,
			mcp.WithDescription("Read the comments on one issue, oldest first."),
		), t.comments),
		tool(mcp.NewTool("search_issues", reads(),
			mcp.WithDescription("Find issues, open and closed, that hold every word of the query in title, body or comments."),
			mcp.WithString("query", mcp.Required(), mcp.MinLength(1)),
		), t.search),
		tool(mcp.NewTool("update_issue", writes(), number,
			mcp.WithDescription("Change an issue's state, labels or assignee, and comment on it. What is not given stays."),
			mcp.WithString("state", mcp.Enum("open", "closed")),
			mcp.WithArray("labels", mcp.WithStringItems(), mcp.Description("all labels it shall have")),
			mcp.WithString("assignee"),
			mcp.WithString("comment"),
		), t.update),
	}
}

func (t *issues) list(a listArgs) (any, error) {
	state, page, size := cmp.Or(a.State, "open"), cmp.Or(a.Page, 1), cmp.Or(a.PerPage, 10)
	all := t.where(func(i *issue) bool {
		return (state == "all" || i.State == state) && (a.Label == "" || slices.Contains(i.Labels, a.Label))
	})
	from := min((page-1)*size, len(all))
	return issueList{len(all), all[from:min(from+size, len(all))]}, nil
}

func (t *issues) search(a searchArgs) (any, error) {
	words := strings.Fields(strings.ToLower(a.Query))
	found := t.where(func(i *issue) bool {
		text := i.Title + "\n" + i.Body
		for _, c := range t.talk[i.Number] {
			text += "\n" + c.Body
		}
		text = strings.ToLower(text)
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	})
	return issueList{len(found), found[:min(10, len(found))]}, nil
}

// where returns the issues that keep wants, last updated first. keep is
// called with the lock held.
func (t *issues) where(keep func(*issue) bool) []summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := []summary{}
	for _, i := range t.byID {
		if keep(i) {
			found = append(found, i.summary)
		}
	}
	slices.SortFunc(found, func(a, b summary) int {
		return cmp.Or(cmp.Compare(b.UpdatedAt, a.UpdatedAt), b.Number-a.Number)
	})
	return found
}

func (t *issues) get(a issueArgs) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, err := t.findLocked(a.Number)
	if err != nil {
		return nil, err
	}
	return *i, nil
}

func (t *issues) comments(a issueArgs) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.findLocked(a.Number); err != nil {
		return nil, err
	}
	return commentList{a.Number, slices.Concat([]comment{}, t.talk[a.Number])}, nil
}

func (t *issues) update(a updateArgs) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, err := t.findLocked(a.Number)
	if err != nil {
		return nil, err
	}
	t.now = t.now.Add(time.Minute)
	i.UpdatedAt = t.now.Format(time.RFC3339)
	i.State = cmp.Or(a.State, i.State)
	i.Assignee = cmp.Or(a.Assignee, i.Assignee)
	if a.Labels != nil {
		i.Labels = a.Labels
	}
	if a.Comment != "" {
		t.commentLocked(i, "agent", t.now, a.Comment)
	}
	return *i, nil
}

func (t *issues) findLocked(number int) (*issue, error) {
	i := t.byID[number]
	if i == nil {
		return nil, fmt.Errorf("issue %d: not found", number)
	}
	return i, nil
}

func (t *issues) commentLocked(i *issue, author string, at time.Time, body string) {
	t.nextID++
	t.talk[i.Number] = append(t.talk[i.Number], comment{t.nextID, author, at.Format(time.RFC3339), body})
	i.Comments++
}
