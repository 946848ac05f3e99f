package main

import (
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/state"
)

// printNotes prints which servers are skipped or stay with their client, and notes about the files.
func (p *importPlan) printNotes() {
	for _, n := range p.m.reader.Notes() {
		kind := "note"
		if n.Wrong {
			kind = "warning"
		}
		say(p.m.stderr, "%s: %s", kind, n)
	}
	for _, s := range p.servers {
		switch {
		case s.stayReason != "":
			say(p.m.stderr, "note: %s stays with its client: %s", s.server.Called(), s.stayReason)
		case s.existing != "" && p.has(s.existing):
			say(p.m.stderr, "note: %s is already configured as upstreams.%s", s.server.Called(), s.existing)
		}
	}
	if !slices.ContainsFunc(p.servers, planned.taken) {
		say(p.m.stderr, "nothing to import")
	}
}

// unknown reports whether a server to be added is unknown and untrusted.
func (p planned) unknown() bool { return p.add && !p.server.Block.Trust && providerOf(*p.server) == "" }

// printUnknown prints a note on each unknown server, with its annotations if they were read.
func (p *importPlan) printUnknown() {
	for _, s := range p.servers {
		claim := p.claims[s.server.Name]
		if claim == "" && s.unknown() {
			claim = "mcpschedd check --connect shows its tool annotations, and --trust " + s.server.Called() + " trusts them"
		}
		if claim != "" {
			say(p.m.stderr, "note: %s is an unknown server, so its calls only pass through: %s", s.server.Called(), claim)
		}
	}
}

// printChanges prints the changes, the location of the copies, and the next steps.
func (p *importPlan) printChanges(changes []clients.Change, copies string, next []string) error {
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
	case p.m.hooks:
		say(p.m.stderr, "Claude Code already reports its edits")
	default:
		say(p.m.stderr, "no rule names a tool of a moved server")
	}
	for _, c := range changes {
		switch {
		case c.Pointed != nil:
			var names []string
			for _, moved := range c.Pointed.Moves {
				names = append(names, moved.Name)
			}
			if len(names) > 0 {
				say(p.m.stderr, "%s: mcpschedd replaces %s", c.File.Path, strings.Join(names, ", "))
			}
			if c.Pointed.Connects {
				say(p.m.stderr, "%s: mcpschedd now starts connect instead of serve", c.File.Path)
			}
		case c.Renamed != nil || c.Hooks:
			if c.Renamed != nil {
				say(p.m.stderr, "wrote %s", renames(c.File.Path, c.Renamed))
			}
			if c.Hooks {
				say(p.m.stderr, "%s: hooks now report Claude Code's own edits", c.File.Path)
			}
		default:
			say(p.m.stderr, "wrote %s", c.File.Path)
		}
	}
	if copies != "" {
		say(p.m.stderr, "copies of the original files: %s; mcpschedd import --undo restores them", copies)
	}
	for _, step := range next {
		say(p.m.stderr, "next: %s", step)
	}
	return nil
}

// renames describes the new names in a file's rules.
func renames(path string, all []clients.Rename) string {
	var names []string
	for _, n := range all {
		names = append(names, n.From+" is now "+n.To)
	}
	return path + ": " + strings.Join(names, ", ")
}
