package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/state"
)

// writeMissing adds to the configuration what it lacks. What would come of it is
// checked before it takes the file's place.
func (m *importing) writeMissing() error {
	have, err := m.configured()
	if err != nil {
		return err
	}
	file, err := state.OpenFile(have.Path)
	if err != nil {
		return err
	}
	if err := m.read(clients.References(file.Text)); err != nil {
		return err
	}
	r := importReport{Sources: m.sources, Import: m.reader.Import(), Config: have.Path}
	missing, there, kept := clients.Missing(r.Servers, upstreams(have))
	r.Kept = kept
	for _, s := range missing {
		r.Added = append(r.Added, s.Name)
	}
	if !m.json {
		m.tell(r.Import)
		for _, k := range kept {
			fmt.Fprintf(m.stderr, "mcpschedd: note: %s\n", k)
		}
	}
	after := m.appended(file.Text, missing)
	if len(missing) > 0 {
		if inlineUpstreams.Match(file.Text) { // our parser would take it, others would not
			return hinted{misused{fmt.Errorf("%s: nothing was written: its upstreams stand in one line", have.Path)}, "write them as [upstreams.NAME] blocks first"}
		}
		next, err := config.Parse(have.Path, after, unmeant)
		if err != nil {
			return fmt.Errorf("%s: nothing was written: what is imported does not go into it: %v", have.Path, err)
		}
		if got, want := names(upstreams(next)), append(names(upstreams(have)), r.Added...); !slices.Equal(got, want) {
			return fmt.Errorf("%s: nothing was written: it would have the upstreams %q, want %q", have.Path, got, want)
		}
		if r.Backup, err = file.Replace(after, time.Now()); err != nil {
			return err
		}
	}
	args := []string{"serve"}
	if m.config != "" {
		args = append(args, "--config", have.Path)
	}
	r.Next = clients.Next(append(there, missing...), args, r.Self)
	if m.json {
		return m.printJSON(r)
	}
	return m.tellWritten(r, missing, file.Text, after)
}

var inlineUpstreams = regexp.MustCompile(`(?m)^[ \t]*["']?upstreams["']?[ \t]*=`)

// configured is the configuration that is written to; one that does not exist yet is
// the defaults.
func (m *importing) configured() (*config.Config, error) {
	c, err := load(m.config)
	if named := cmp.Or(m.config, os.Getenv("MCPSCHEDD_CONFIG")); named != "" && errors.Is(err, fs.ErrNotExist) {
		c = config.Default()
		c.Path, err = filepath.Abs(named)
	}
	if err != nil {
		return nil, err
	}
	if c.Path == "" {
		return nil, hinted{misused{errors.New("there is no place for a configuration: neither XDG_CONFIG_HOME nor HOME is set")}, "name one with --config"}
	}
	return c, nil
}

// upstreams are those that a configuration has.
func upstreams(c *config.Config) []clients.Existing {
	var all []clients.Existing
	for _, u := range c.Upstreams {
		all = append(all, clients.Existing{Name: u.Name, Command: u.Command, URL: u.URL, Args: u.Args})
	}
	return all
}

func names(upstreams []clients.Existing) []string {
	var all []string
	for _, u := range upstreams {
		all = append(all, u.Name)
	}
	return all
}

// appended is a configuration with further upstreams at its end, and line ends as it
// has them.
func (m *importing) appended(text []byte, servers []clients.Server) []byte {
	added := fmt.Appendf(nil, "%s\n%s", m.header(), clients.TOML(servers))
	if len(text) > 0 {
		added = append([]byte("\n"), added...)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		added = append([]byte("\n"), added...)
	}
	if bytes.Contains(text, []byte("\r\n")) {
		added = bytes.ReplaceAll(added, []byte("\n"), []byte("\r\n"))
	}
	return append(bytes.Clone(text), added...)
}

// tellWritten prints what changed, what has to be set, and what comes next.
func (m *importing) tellWritten(r importReport, missing []clients.Server, before, after []byte) error {
	if len(missing) == 0 {
		fmt.Fprintf(m.stderr, "mcpschedd: nothing to change in %s\n", r.Config)
	} else {
		if _, err := m.stdout.Write(diff.Diff(r.Config, before, r.Config+" (with what import adds)", after)); err != nil {
			return err
		}
		fmt.Fprintf(m.stderr, "mcpschedd: wrote %s\n", r.Config)
		if r.Backup != "" {
			fmt.Fprintf(m.stderr, "mcpschedd: as it was: %s\n", r.Backup)
		}
	}
	m.tellVariables(missing)
	if len(r.Next) > 0 {
		fmt.Fprintln(m.stderr, "mcpschedd: next, so that the client goes through mcpschedd (its file was not touched):")
	}
	for _, step := range r.Next {
		fmt.Fprintf(m.stderr, "  %s\n", step)
	}
	return nil
}
