package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
)

// importReport is what --json prints.
type importReport struct {
	Sources []string         `json:"sources"`
	Servers []clients.Server `json:"servers"`
	Notes   []clients.Note   `json:"notes"`
	Self    []string         `json:"self,omitempty"` // files that have mcpschedd among their servers already
	Config  string           `json:"config,omitempty"`
	Added   []string         `json:"added,omitempty"`
	Kept    []string         `json:"kept,omitempty"`
	Changed []string         `json:"changed,omitempty"` // files, with --write
	Copies  string           `json:"copies,omitempty"`  // the folder of these files as they were
	Next    []string         `json:"next,omitempty"`
	Unknown []serverClaim    `json:"unknown,omitempty"` // what servers of which nothing is known say of their tools
}

// report is what is known before anything is changed.
func (p *importPlan) report() importReport {
	r := importReport{
		Sources: p.m.sources, Servers: p.m.reader.Servers(), Notes: p.m.reader.Notes(), Self: p.m.reader.Self(), Kept: p.kept,
	}
	for _, name := range slices.Sorted(maps.Keys(p.claims)) {
		r.Unknown = append(r.Unknown, p.claims[name])
	}
	return r
}

// list prints one line a server.
func (p *importPlan) list(w io.Writer) {
	for _, s := range p.servers {
		what := "would be taken over"
		if provider := known(s.server); provider != "" {
			what += ", and is known (" + provider + ")"
		}
		switch {
		case s.stays != "":
			what = "stays: " + s.stays
		case s.there != "":
			what = "is upstreams." + s.there + " already"
		}
		if s.server.From.Scope == "local" || s.server.From.Scope == "project" {
			what += " (for " + strings.Join(s.server.Block.Folders, ", ") + " alone)"
		}
		if claim := p.claim(s); claim != "" {
			what += "; " + claim
		}
		fmt.Fprintln(w, clients.OneLine("  "+s.server.Called()+": "+what))
	}
	for _, n := range p.m.reader.Notes() {
		fmt.Fprintln(w, "  "+n.String())
	}
}

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

// claim is what a server says of its tools, and how it is believed; "": it was not asked.
func (p *importPlan) claim(s planned) string {
	claim, asked := p.claims[s.server.Name]
	believe := "--trust " + s.server.Called() + " believes it"
	if p.m.write {
		believe = "trust = true in [" + config.Key("upstreams", s.server.Name) + "] believes it"
	}
	switch {
	case !asked:
		return ""
	case claim.Problem != "":
		return "could not be asked what its tools do: " + claim.Problem
	case claim.ReadOnly == 0:
		return plural(claim.Tools, "tool") + ", of none of which it says that it only reads"
	}
	return fmt.Sprintf("%s, says that %d only read; %s", plural(claim.Tools, "tool"), claim.ReadOnly, believe)
}

// tellUnknown prints of each unknown server what it says of its tools.
func (p *importPlan) tellUnknown() {
	for _, s := range p.servers {
		claim := p.claim(s)
		if claim == "" && s.unknown() {
			claim = "mcpschedd check --connect shows what it says of its tools, and --trust " + s.server.Called() + " believes it"
		}
		if claim != "" {
			say(p.m.stderr, "note: nothing is known of %s, so that its answers are only passed on: %s", s.server.Called(), claim)
		}
	}
}

// tellChanged prints what was changed, and what comes next.
func (p *importPlan) tellChanged(r importReport, changes []clients.Change) error {
	for _, c := range changes {
		if c.File.Path != r.Config {
			continue
		}
		if _, err := p.m.stdout.Write(diff.Diff(r.Config, c.File.Text, r.Config+" (with what import adds)", c.Text)); err != nil {
			return err
		}
	}
	switch {
	case len(changes) > 0:
	case p.m.write:
		say(p.m.stderr, "nothing to change in %s", r.Config)
	default:
		say(p.m.stderr, "no rule names a tool of a server that has moved")
	}
	for _, c := range changes {
		switch {
		case c.Pointed != nil:
			var names []string
			for _, t := range c.Pointed.Taken {
				names = append(names, t.Names...)
			}
			say(p.m.stderr, "%s: mcpschedd stands there for %s", c.File.Path, strings.Join(names, ", "))
		case c.Renamed != nil:
			say(p.m.stderr, "wrote %s", renames(c.File.Path, c.Renamed))
		default:
			say(p.m.stderr, "wrote %s", c.File.Path)
		}
	}
	if r.Copies != "" {
		say(p.m.stderr, "the files as they were: %s; mcpschedd import --undo puts them back", r.Copies)
	}
	for _, step := range r.Next {
		say(p.m.stderr, "next: %s", step)
	}
	return nil
}

// renames says of a file by which names its rules hold.
func renames(path string, all []clients.Rename) string {
	var names []string
	for _, n := range all {
		names = append(names, n.From+" is now "+n.To)
	}
	return path + ": " + strings.Join(names, ", ")
}
