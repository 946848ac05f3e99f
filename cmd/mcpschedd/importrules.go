package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/state"
)

// rewriteRules makes Claude Code's rules name the tools of servers that earlier imports have
// moved by the names that hold now.
func (m *importing) rewriteRules() error {
	if len(m.from) == 0 {
		m.from = []string{"claude"}
	}
	have, err := m.configured()
	if err != nil {
		return err
	}
	dir, err := stateDir(have)
	if err != nil {
		return err
	}
	return clients.Locked(dir, func() error { return m.rewriteLocked(dir) })
}

func (m *importing) rewriteLocked(dir state.Dir) error {
	if err := m.read(); err != nil {
		return err
	}
	p, err := m.plan()
	if err != nil {
		return err
	}
	for i := range p.servers {
		p.servers[i].add = false // what has not moved keeps its names
	}
	if p.moved, err = clients.Moved(dir); err != nil {
		return err
	}
	if len(p.moved) == 0 {
		return hinted{errors.New("no server of Claude Code has been moved"), "mcpschedd import claude --write --permissions moves them, and rewrites the rules"}
	}
	changes, err := p.changedRules()
	if err != nil {
		return err
	}
	r := importReport{Sources: m.sources, Config: p.have.Path, Next: p.rules()}
	if len(changes) > 0 {
		if r.Copies, err = clients.Apply(dir, m.sources, changes, time.Now()); err != nil {
			return err
		}
	}
	for _, c := range changes {
		r.Changed = append(r.Changed, c.File.Path)
	}
	if m.json {
		return printJSON(m.stdout, r)
	}
	for _, c := range changes {
		fmt.Fprintf(m.stderr, "mcpschedd: wrote %s\n", clients.OneLine(renames(c.File.Path, c.Renamed)))
	}
	if len(changes) == 0 {
		fmt.Fprintln(m.stderr, "mcpschedd: no rule names a tool of a server that has moved")
	}
	for _, step := range r.Next {
		fmt.Fprintf(m.stderr, "mcpschedd: next: %s\n", step)
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
