package main

import (
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/state"
)

// tell prints what was left out, what stays, and what was not understood.
func (p *importPlan) tell() {
	for _, n := range p.m.reader.Notes() {
		kind := "note"
		if n.Wrong {
			kind = "warning"
		}
		say(p.m.stderr, "%s: %s", kind, n)
	}
	for _, s := range p.servers {
		if s.stays != "" {
			say(p.m.stderr, "note: %s stays with its client: %s", s.server.Called(), s.stays)
		}
	}
	for _, k := range p.kept {
		say(p.m.stderr, "note: %s", k)
	}
	if !slices.ContainsFunc(p.servers, planned.taken) {
		say(p.m.stderr, "nothing to import")
	}
}

// unknown reports whether nothing is known of a server that is taken over.
func (p planned) unknown() bool { return p.add && !p.server.Block.Trust && known(p.server) == "" }

// tellUnknown names the servers of which nothing is known.
func (p *importPlan) tellUnknown() {
	for _, s := range p.servers {
		if s.unknown() {
			say(p.m.stderr, "note: nothing is known of %s, so that its answers are only passed on: mcpschedd check --connect shows what it says of its tools, and names the line that believes it", s.server.Called())
		}
	}
}

// tellChanged prints what was changed, where the files are as they were, and what comes next.
func (p *importPlan) tellChanged(changes []clients.Change, copies string, next []string) error {
	config := p.have.Path
	for _, c := range changes {
		if c.File.Path != config {
			continue
		}
		if _, err := p.m.stdout.Write(state.Diff(config, c.File.Text, c.Text)); err != nil {
			return err
		}
	}
	switch {
	case len(changes) > 0:
	case p.m.write:
		say(p.m.stderr, "nothing to change in %s", config)
	default:
		say(p.m.stderr, "Claude Code reports its edits already")
	}
	for _, c := range changes {
		switch {
		case c.Pointed != nil:
			if names := c.Pointed.Taken; len(names) > 0 {
				say(p.m.stderr, "%s: mcpschedd stands there for %s", c.File.Path, strings.Join(names, ", "))
			}
			if c.Pointed.Connects {
				say(p.m.stderr, "%s: mcpschedd connects there, where it served", c.File.Path)
			}
		case c.Hooks:
			say(p.m.stderr, "%s: hooks there report what Claude Code edits itself", c.File.Path)
		default:
			say(p.m.stderr, "wrote %s", c.File.Path)
		}
	}
	if copies != "" {
		say(p.m.stderr, "the files as they were: %s; mcpschedd import --undo puts them back", copies)
	}
	for _, step := range next {
		say(p.m.stderr, "next: %s", step)
	}
	return nil
}
