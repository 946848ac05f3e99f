package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// lists are the requests that every survey begins with, and the members of their results that have
// the items.
var lists = []struct{ method, member string }{
	{"tools/list", "tools"},
	{"prompts/list", "prompts"},
	{"resources/list", "resources"},
	{"resources/templates/list", "resourceTemplates"},
}

// named reports whether a joined view prefixes the names of the list's items.
func named(list int) bool { return list < 2 }

// facts are the declarations, lists and answers of a server.
type facts struct {
	Capabilities json.RawMessage
	Instructions string
	Lists        [][]json.RawMessage // as in lists
	Shuffled     []bool              // lists with another order when they were read again
	Answers      []answer            // to the calls of the server, in order
}

// patience is how often lists are read until they stop changing.
const patience = 20

// survey starts a process, reads all its lists, and makes the calls.
func survey(ctx context.Context, p process, calls []call) (*facts, error) {
	c, err := start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer c.close()
	f, err := greet(c)
	if err != nil {
		return nil, err
	}
	f.Answers, err = askAll(c, calls, "")
	return f, err
}

// greet makes the handshake, and reads all lists.
func greet(c *client) (*facts, error) {
	a, err := c.ask("initialize", json.RawMessage(`{"protocolVersion":"2025-11-25",`+
		`"capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}},`+
		`"clientInfo":{"name":"compare","version":"1"}}`))
	if err != nil {
		return nil, err
	}
	var hello struct {
		Capabilities json.RawMessage
		Instructions string
	}
	if err := json.Unmarshal(a.Result, &hello); err != nil {
		return nil, c.fail("initialize", fmt.Errorf("%w: %s", err, a.Error))
	}
	if err := c.tell("notifications/initialized"); err != nil {
		return nil, c.fail("notifications/initialized", err)
	}
	f := &facts{Capabilities: hello.Capabilities, Instructions: hello.Instructions, Shuffled: make([]bool, len(lists))}
	for range patience {
		before := f.Lists
		if f.Lists, err = readLists(c); err != nil {
			return nil, err
		}
		steady := before != nil
		for i := range before {
			same := slices.EqualFunc(before[i], f.Lists[i], sameBytes)
			f.Shuffled[i] = !same && slices.EqualFunc(byKey(i, before[i]), byKey(i, f.Lists[i]), sameBytes)
			steady = steady && (same || f.Shuffled[i])
		}
		if steady {
			return f, nil
		}
		time.Sleep(c.settle)
	}
	return nil, c.fail("lists", fmt.Errorf("not the same for %v, in %d tries", c.settle, patience))
}

func sameBytes(a, b json.RawMessage) bool { return string(a) == string(b) }

// key returns the member that identifies an item in its list.
func key(list int, item json.RawMessage) string {
	var k struct{ Name, URI, URITemplate string }
	json.Unmarshal(item, &k) // an item without such a member has the key ""
	return []string{k.Name, k.Name, k.URI, k.URITemplate}[list]
}

// byKey returns the items of a list sorted by key.
func byKey(list int, items []json.RawMessage) []json.RawMessage {
	return slices.SortedStableFunc(slices.Values(items), func(a, b json.RawMessage) int {
		return strings.Compare(key(list, a), key(list, b))
	})
}

// readLists reads all pages of every list. A list that a server does not have is empty.
func readLists(c *client) ([][]json.RawMessage, error) {
	all := make([][]json.RawMessage, len(lists))
	for i, l := range lists {
		params := json.RawMessage(`{}`)
		for params != nil {
			a, err := c.ask(l.method, params)
			if err != nil {
				return nil, err
			}
			if a.Error != nil {
				var e struct{ Code int }
				if json.Unmarshal(a.Error, &e); e.Code != -32601 {
					return nil, c.fail(l.method, fmt.Errorf("%s", a.Error))
				}
				break
			}
			var page map[string]json.RawMessage
			var items []json.RawMessage
			if err := json.Unmarshal(a.Result, &page); err != nil {
				return nil, c.fail(l.method, err)
			}
			if err := json.Unmarshal(page[l.member], &items); err != nil {
				return nil, c.fail(l.method, fmt.Errorf("%s: %w", l.member, err))
			}
			all[i] = append(all[i], items...)
			params = nil
			if cursor := page["nextCursor"]; cursor != nil && string(cursor) != "null" {
				params = json.RawMessage(`{"cursor":` + string(cursor) + `}`)
			}
		}
	}
	return all, nil
}

// askAll makes the calls of a server, with the prefix before names.
func askAll(c *client, calls []call, prefix string) ([]answer, error) {
	answers := make([]answer, len(calls))
	for i, q := range calls {
		params, err := prefixed(q, prefix)
		if err != nil {
			return nil, c.fail(q.Method, err)
		}
		if answers[i], err = c.ask(q.Method, params); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// prefixed returns the params of a call with the prefixed name.
func prefixed(q call, prefix string) (json.RawMessage, error) {
	if prefix == "" || len(q.Params) == 0 {
		return q.Params, nil
	}
	var p map[string]json.RawMessage
	if err := json.Unmarshal(q.Params, &p); err != nil {
		return nil, err
	}
	holder := p
	if q.Method == "completion/complete" {
		if err := json.Unmarshal(p["ref"], &holder); err != nil {
			return nil, err
		}
	}
	var name string
	if holder["name"] == nil {
		return q.Params, nil
	}
	if err := json.Unmarshal(holder["name"], &name); err != nil {
		return nil, err
	}
	var err error
	if holder["name"], err = json.Marshal(prefix + name); err != nil {
		return nil, err
	}
	if q.Method == "completion/complete" {
		if p["ref"], err = json.Marshal(holder); err != nil {
			return nil, err
		}
	}
	return json.Marshal(p)
}
