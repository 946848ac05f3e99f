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

func (m *importing) newReader() *clients.Reader {
	return clients.NewReader(clients.Options{Machine: m.machine(), ReadFile: readBounded})
}

// read reads the files that were named, those of clients that exist, and what the clients'
// rules deny.
func (m *importing) read() error {
	m.reader = m.newReader()
	if m.all {
		m.from = []string{"any client"}
	}
	for _, from := range m.from {
		named := clients.Named(from)
		if m.all {
			named = clients.All
		}
		if len(named) > 0 {
			if err := m.readClients(from, named); err != nil {
				return err
			}
			continue
		}
		path, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		if err := m.one(path); errors.Is(err, fs.ErrNotExist) {
			return suggest(fmt.Errorf("%s: neither a client nor a file", from), from, clients.Names(), "want a file, or one of "+strings.Join(clients.Names(), ", "))
		} else if err != nil {
			return err
		}
	}
	m.reader.Deny()
	return nil
}

// readClients reads those of clients' files that are there. What cannot be read is
// said; it is an error if nothing else is there.
func (m *importing) readClients(name string, all []*clients.Client) error {
	if m.home == "" {
		return hinted{misused{fmt.Errorf("there is no home folder to look for the files of %s in", name)}, "name the file instead"}
	}
	var wrong []error
	var tried []string
	before := len(m.sources)
	for _, c := range all {
		for _, path := range c.Places(m.machine()) {
			err := m.one(path)
			_, none := errors.AsType[*clients.NoServers](err)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				tried = append(tried, path+" (no such file)")
			case none:
				tried = append(tried, path+" (no servers in it)")
			case err != nil:
				wrong = append(wrong, err)
			}
		}
	}
	switch {
	case len(m.sources) > before:
		for _, err := range wrong {
			say(m.stderr, "warning: %v", err)
		}
		return nil
	case len(wrong) > 0:
		return errors.Join(wrong...)
	}
	return hinted{fmt.Errorf("no servers of %s: %s", name, strings.Join(tried, ", ")), "name the file, if it is elsewhere"}
}

const mostClientFile = 64 << 20 // bytes

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostClientFile+1))
}

// one reads one file.
func (m *importing) one(path string) error {
	if slices.Contains(m.sources, path) {
		return nil
	}
	if s, err := os.Stat(path); err != nil {
		return err
	} else if s.IsDir() {
		return fmt.Errorf("%s: is a directory", path)
	} else if s.Size() > mostClientFile {
		return fmt.Errorf("%s: want a file of at most %d MiB", path, mostClientFile>>20)
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

// foundFile is a client's file, and what would be done with its servers.
type foundFile struct {
	title string
	plan  *importPlan // nil: nothing
	why   string      // why it is nil, or the client would not start mcpschedd
}

// list prints the clients that are found, and what would be done.
func (m *importing) list(ctx context.Context) error {
	if m.home == "" {
		return hinted{misused{errors.New("there is no home folder to look for clients in")}, "name a file"}
	}
	var all []foundFile
	var plans []*importPlan
	for _, c := range clients.All {
		for _, path := range c.Places(m.machine()) {
			f, err := m.look(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			} else if err != nil {
				return err
			}
			f.title = c.Title + ": " + path
			if all = append(all, f); f.plan != nil {
				plans = append(plans, f.plan)
			}
		}
	}
	if len(all) == 0 {
		fmt.Fprintf(m.stdout, "no client is found; name a file, or one of %s; mcpschedd add adds a server without a client\n", strings.Join(clients.Names(), ", "))
		return nil
	}
	askAll(ctx, plans)
	for _, f := range all {
		fmt.Fprintln(m.stdout, clients.OneLine(f.title))
		if f.why != "" {
			fmt.Fprintln(m.stdout, clients.OneLine("  "+f.why))
		}
		if f.plan != nil {
			f.plan.list(m.stdout)
		}
	}
	fmt.Fprintln(m.stdout, "\nmcpschedd import CLIENT --write does it, and --all --write for all of them; --undo takes it back.")
	return nil
}

// look plans what would be done with one client's file. An error is a file that is not there,
// or a configuration of ours with mistakes.
func (m *importing) look(path string) (foundFile, error) {
	one := &importing{home: m.home, config: m.config, noStart: m.noStart, stdout: m.stdout, stderr: io.Discard, files: make(map[string]*state.File)}
	one.reader = m.newReader()
	err := one.one(path)
	if errors.Is(err, fs.ErrNotExist) {
		return foundFile{}, err
	}
	if _, none := errors.AsType[*clients.NoServers](err); none {
		return foundFile{why: "no servers"}, nil
	}
	if err != nil {
		return foundFile{why: "cannot be read, and is left alone: " + err.Error()}, nil
	}
	one.reader.Deny()
	p, err := one.plan()
	if err != nil {
		return foundFile{}, err
	}
	if why := one.reader.Forbidden(); why != "" {
		return foundFile{plan: p, why: "cannot be done: " + why}, nil
	}
	return foundFile{plan: p}, nil
}
