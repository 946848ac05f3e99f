package demo

import (
	"fmt"
	"time"
)

// newIssues returns the tracker of a small invoicing service: forty issues,
// of which four tell the story of customers charged twice.
func newIssues() *issues {
	t := &issues{byID: map[int]*issue{}, talk: map[int][]comment{}, nextID: 9000}
	begin := time.Date(2026, time.March, 2, 9, 0, 0, 0, time.UTC)
	for n := 1; n <= 40; n++ {
		created := begin.Add(time.Duration(n) * 7 * time.Hour)
		i, talk := told(n)
		if i == nil {
			i, talk = ordinary(n)
		}
		i.Number = n
		i.CreatedAt = created.Format(time.RFC3339)
		at := created
		for k, body := range talk {
			at = at.Add(40 * time.Minute)
			t.commentLocked(i, []string{"mira", "tomas", "ines"}[(n+2*k)%3], at, body)
		}
		i.UpdatedAt = at.Format(time.RFC3339)
		t.byID[n] = i
		t.now = at.Add(time.Hour)
	}
	return t
}

// told returns the issues that the story needs, and what was said on them.
func told(n int) (*issue, []string) {
	switch n {
	case 38:
		return &issue{
			summary: summary{Title: "PDF export cuts off the last column", State: "open", Labels: []string{"bug", "area/export", "severity/low"}},
			Author:  "ines",
			Body:    "With more than eight columns the total is outside the page. Landscape helps.",
		}, []string{"Only with the narrow template. Not urgent."}
	case 36:
		return &issue{
				summary: summary{Title: "Customers charged twice when the payment provider retries", State: "open", Labels: []string{"bug", "area/billing", "severity/high"}},
				Author:  "mira",
				Body:    "Since yesterday's release. The provider sends the same event again when we answer late, and we charge again.\n\nThe log says `duplicate charge for invoice` and the number, but only after the second charge went out.",
			}, []string{
				"Three customers so far. The stack ends in chargeOnce(), so the guard is there and does not hold.",
				"Looks like #21, which we closed in March.",
				"I can take it as soon as we know where it is.",
			}
	case 29:
		return &issue{
				summary: summary{Title: "Webhook retry books a second payment", State: "open", Labels: []string{"bug", "area/billing"}},
				Author:  "tomas",
				Body:    "Found in the nightly reconciliation: two payments, one order. Log: `duplicate charge for invoice 5117`.",
			}, []string{
				"The two events have different ids but the same invoice.",
				"So the key cannot be the event id.",
			}
	case 21:
		return &issue{
			summary: summary{Title: "Double charge after a deploy", State: "closed", Labels: []string{"bug", "area/billing"}},
			Author:  "ines",
			Body:    "Workers restarted in the middle of a batch and charged the open ones again: `duplicate charge for invoice 4410`.",
		}, []string{"Fixed by writing the key before the charge goes out."}
	}
	return nil, nil
}

// ordinary returns an issue that only fills the tracker.
func ordinary(n int) (*issue, []string) {
	area := []string{"billing", "export", "login", "search", "reports"}[n%5]
	kind := []string{"feature", "bug", "docs", "chore"}[n%4]
	titles := map[string][]string{
		"bug":     {"Blank row in the %s view after a refresh", "The %s page forgets the chosen period", "Wrong time zone in %s"},
		"feature": {"Keyboard shortcuts for %s", "Remember the last filter in %s", "Archive old entries of %s"},
		"docs":    {"Describe the limits of %s", "Screenshots of %s are out of date", "Say how %s handles time zones"},
		"chore":   {"Drop the old %s endpoint", "Move %s to the new configuration", "Fewer queries in %s"},
	}[kind]
	state := "open"
	if n%3 == 0 || n > 36 {
		state = "closed"
	}
	talk := []string{"Confirmed on staging.", "Same here, since the last release.", "Let us look at it next week."}
	return &issue{
		summary: summary{Title: fmt.Sprintf(titles[n/4%3], area), State: state, Labels: []string{kind, "area/" + area}},
		Author:  []string{"mira", "tomas", "ines"}[n%3],
		Body:    fmt.Sprintf("Reported by support, ticket %d. Steps, expectation and screenshots are in the ticket.", 70000+n*13),
	}, talk[:n%4]
}
