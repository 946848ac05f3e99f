package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/state"
)

const maxClientFile = 64 << 20 // bytes

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxClientFile+1))
}

// clientFile is a file of a client, and the error of reading it.
type clientFile struct {
	title string // name of the client
	path  string
	err   error // why none of its servers could be read
}

// missing reports whether the file does not exist.
func (f clientFile) missing() bool { return errors.Is(f.err, fs.ErrNotExist) }

// empty reports whether the file has no servers.
func (f clientFile) empty() bool {
	_, none := errors.AsType[*clients.NoServers](f.err)
	return none
}

// read reads the named files, the files of named clients, and the deny rules of clients.
func (m *importing) read() error {
	if m.all {
		if err := m.readClients("any client", clients.All); err != nil {
			return err
		}
	}
	for _, from := range m.from {
		if named := clients.Named(from); len(named) > 0 {
			if err := m.readClients(from, named); err != nil {
				return err
			}
			continue
		}
		path, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		if err := m.readFile(path); errors.Is(err, fs.ErrNotExist) {
			return suggest(fmt.Errorf("%s: not a client and not a file", from), from, clients.Names(), "want a file, or one of "+strings.Join(clients.Names(), ", "))
		} else if err != nil {
			return err
		}
	}
	m.reader.Deny()
	return nil
}

// readClients reads the existing files of clients. An unreadable file is a warning, or an error
// if no other file exists.
func (m *importing) readClients(name string, all []*clients.Client) error {
	files, err := m.lookFor(all)
	if err != nil {
		return err
	}
	read := false
	var wrong []error
	var tried []string
	for _, f := range files {
		switch {
		case f.err == nil:
			read = true
		case f.missing():
			tried = append(tried, f.path+" (no such file)")
		case f.empty():
			tried = append(tried, f.path+" (no servers in it)")
		default:
			wrong = append(wrong, f.err)
		}
	}
	switch {
	case read:
		for _, err := range wrong {
			say(m.stderr, "warning: %v", err)
		}
		return nil
	case len(wrong) > 0:
		return errors.Join(wrong...)
	}
	return hinted{fmt.Errorf("no servers of %s: %s", name, strings.Join(tried, ", ")), "name the file if it is elsewhere"}
}

// lookFor reads the user's files of clients.
func (m *importing) lookFor(all []*clients.Client) (files []clientFile, err error) {
	if m.home == "" {
		return nil, hinted{misused{errors.New("no home directory to search for clients")}, "name a file"}
	}
	for _, c := range all {
		for _, path := range c.Places(m.machine()) {
			files = append(files, clientFile{c.Title, path, m.readFile(path)})
		}
	}
	return files, nil
}

// readFile reads one file.
func (m *importing) readFile(path string) error {
	if slices.Contains(m.sources, path) {
		return nil
	}
	if s, err := os.Stat(path); err != nil {
		return err
	} else if s.IsDir() {
		return fmt.Errorf("%s: is a directory", path)
	} else if s.Size() > maxClientFile {
		return fmt.Errorf("%s: want a file of at most %d MiB", path, maxClientFile>>20)
	}
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	if err := m.reader.Read(path, f.Text); err != nil {
		return err
	}
	m.files[path] = f
	m.sources = append(m.sources, path)
	return nil
}

// list prints the clients found, and what an import would do with each of their servers.
func (m *importing) list(ctx context.Context) error {
	files, err := m.lookFor(clients.All)
	if err != nil {
		return err
	}
	if files = slices.DeleteFunc(files, clientFile.missing); len(files) == 0 {
		fmt.Fprintf(m.stdout, "no client found; name a file, or one of %s; mcpschedd add adds a server without a client\n", strings.Join(clients.Names(), ", "))
		return nil
	}
	m.reader.Deny()
	p, err := m.plan()
	if err != nil {
		return err
	}
	p.readAnnotations(ctx)
	for _, s := range p.servers { // a client's own file refers to the files of projects
		if from := s.server.From; !slices.ContainsFunc(files, func(f clientFile) bool { return f.path == from.File }) {
			files = append(files, clientFile{title: clients.Named(from.Client)[0].Title, path: from.File})
		}
	}
	for _, f := range files {
		fmt.Fprintln(m.stdout, clients.OneLine(f.title+": "+f.path))
		switch why := m.reader.Forbidden(f.path); {
		case f.empty():
			fmt.Fprintln(m.stdout, "  no servers")
		case f.err != nil:
			fmt.Fprintln(m.stdout, clients.OneLine("  skipped, as it cannot be read: "+f.err.Error()))
		case why != "":
			fmt.Fprintln(m.stdout, clients.OneLine("  cannot be imported: "+why))
		}
		p.list(m.stdout, f.path)
	}
	for _, n := range m.reader.Notes() {
		fmt.Fprintln(m.stdout, n)
	}
	fmt.Fprintln(m.stdout, "\nmcpschedd import CLIENT --write imports one client, --all --write all of them; --undo reverts it.")
	return nil
}

// list prints a line for each server of a file.
func (p *importPlan) list(w io.Writer, file string) {
	for _, s := range p.servers {
		if s.server.From.File != file {
			continue
		}
		what := "would be imported"
		if provider := providerOf(*s.server); provider != "" {
			what += ", known (" + provider + ")"
		}
		switch {
		case s.stayReason != "":
			what = "stays: " + s.stayReason
		case s.existing != "" && p.has(s.existing):
			what = "already configured as upstreams." + s.existing
		case s.existing != "":
			what = "same as " + s.existing + " above"
		}
		if folders := s.server.Block.Folders; len(folders) > 0 {
			what += " (only in " + strings.Join(folders, ", ") + ")"
		}
		if claim := p.claims[s.server.Name]; claim != "" {
			what += "; " + claim
		}
		fmt.Fprintln(w, clients.OneLine("  "+s.server.Called()+": "+what))
	}
}
