package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"golang.org/x/sync/errgroup"

	"mcpschedd/tools/dataset"
	"mcpschedd/tools/launch"
)

// stuck is the maximum time for a start, or of a call in addition to its latency.
const stuck = 2 * time.Minute

// play is one session as it was played.
type play struct {
	session *session
	calls   []made    // in the order of the session
	arrived []arrival // at the server
	knew    []int     // sessions that had ended before it began
}

// made is one call of a play.
type made struct {
	sent, answered time.Time
	different      bool          // the answer differs from the recorded one
	covered        bool          // by a prefetch
	queued         time.Duration // time at a serial server behind other calls
}

// play plays a session through a proxy process of its own.
func (a *arm) play(ctx context.Context, s *session, label string) (*play, error) {
	p := &play{session: s, calls: make([]made, len(s.Calls))}
	fail := func(err error) (*play, error) { return nil, fmt.Errorf("%s, session %s: %w", a, s.ID, err) }
	if err := a.furnish(s, label); err != nil {
		return fail(err)
	}
	proxy, names, err := a.ready(ctx, s, label)
	if err != nil {
		return fail(err)
	}
	err = p.client(ctx, proxy, names, s.timetable(a.cell.Pauses))
	proxy.Close() // returns when the process has ended and has written what it learned
	if err == nil {
		p.arrived, err = readJournal(journalFile(a.dir, label))
	}
	if err != nil {
		return fail(err)
	}
	p.cover()
	return p, nil
}

// ready starts the proxy of a session, and its server. Only a few start at the same time, so that
// sessions that are being played are not delayed.
func (a *arm) ready(ctx context.Context, s *session, label string) (*client.Client, map[string]string, error) {
	if err := a.lab.starts.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	defer a.lab.starts.Release(1)
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	// One folder for all, as learned state is stored by folder.
	proxy, err := launch.Client(ctx, []string{a.lab.bin, "serve", "--config", a.config(label)}, a.lab.dir, filepath.Join(a.dir, label+".stderr"))
	if err != nil {
		return nil, nil, err
	}
	names, err := s.listed(ctx, proxy)
	if err != nil {
		proxy.Close()
		return nil, nil, err
	}
	return proxy, names, nil
}

// client makes the calls of a client, with the names that the tools have.
func (p *play) client(ctx context.Context, proxy *client.Client, names map[string]string, steps []step) error {
	for _, t := range steps {
		if err := launch.Pause(ctx, t.pause); err != nil {
			return err
		}
		var all errgroup.Group
		for _, index := range t.calls {
			all.Go(func() error { return p.call(ctx, proxy, names, index) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// listed returns the names under which the proxy lists the server's tools. It waits until the list
// has those of the session, as the first list may come before the server has started.
func (s *session) listed(ctx context.Context, proxy *client.Client) (map[string]string, error) {
	for {
		list, err := proxy.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return nil, err
		}
		names := make(map[string]string)
		for _, t := range list.Tools {
			names[strings.TrimPrefix(t.Name, upstreamName+"__")] = t.Name
		}
		missing := slices.IndexFunc(s.Calls, func(c call) bool { return names[c.Tool] == "" })
		if missing < 0 {
			return names, nil
		}
		if err := launch.Pause(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("tool %s is not listed: %w", s.Calls[missing].Tool, err)
		}
	}
}

func (p *play) call(ctx context.Context, proxy *client.Client, names map[string]string, index int) error {
	c, m := &p.session.Calls[index], &p.calls[index]
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = names[c.Tool], c.Arguments
	m.sent = time.Now()
	result, err := proxy.CallTool(ctx, r)
	m.answered = time.Now()
	if err != nil {
		return fmt.Errorf("%s: %w", c.Tool, err)
	}
	m.different = !same(result, c)
	return nil
}

// same reports whether a result equals the recorded one.
func same(r *mcp.CallToolResult, c *call) bool {
	if len(r.Content) != 1 || r.IsError != c.Failed {
		return false
	}
	text, ok := mcp.AsTextContent(r.Content[0])
	return ok && text.Text == c.Text
}

// cover finds the calls that a prefetch answered: the server got them before the client made them,
// and not while the client waited.
func (p *play) cover() {
	for i := range p.calls {
		m := &p.calls[i]
		before, since := false, false
		for _, a := range p.arrived {
			if a.Key != p.session.Calls[i].Key {
				continue
			}
			switch at := time.Unix(0, a.At); {
			case at.Before(m.sent):
				before = true
			case at.Before(m.answered):
				since = true
				m.queued = time.Duration(max(0, a.Began-a.At))
			}
		}
		m.covered = before && !since
	}
}

// readJournal reads the journal of a server. If the server was never called, there is no journal.
func readJournal(name string) ([]arrival, error) {
	lines, err := dataset.LinesOf[arrival](name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []arrival
	for _, a := range lines {
		if a.Began == 0 {
			all = append(all, a)
			continue
		}
		came := slices.IndexFunc(all, func(b arrival) bool { return b.Key == a.Key && b.At == a.At })
		if came < 0 {
			return nil, fmt.Errorf("%s: %s began and never came", name, a.Key)
		}
		all[came].Began = a.Began
	}
	return all, nil
}
