package importing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/state"
)

// Parts says what an import changes.
type Parts struct {
	Servers bool     // add the servers to the configuration
	Line    []string // and replace them in the clients' files with mcpschedd, which this command line starts; nil: they stay there
	Rules   bool     // rename tools in Claude Code's rules
	Hook    []string // add hooks to Claude Code's settings, which run this command line; nil: none
}

// Changes returns the changes to all files. Each result has been checked.
func (im *Import) Changes(dir state.Dir, parts Parts) (all []clients.Change, err error) {
	if parts.Rules { // else the rules for what earlier imports moved were told by them
		if im.moved, err = clients.Moved(dir); err != nil {
			return nil, err
		}
		im.moved = slices.DeleteFunc(im.moved, func(m clients.Move) bool { return im.upstream(m.Upstream) == nil })
	}
	var e edits
	switch {
	case parts.Servers:
		if err = im.configure(&e); err == nil && parts.Line != nil {
			err = im.point(&e, parts.Line)
		}
	case parts.Rules && len(im.moved) == 0:
		err = &Refusal{errors.New("no server of Claude Code has been moved"), "mcpschedd import claude --write --permissions moves them, and rewrites the rules"}
	case parts.Rules:
		im.onlyMoved()
	}
	if err == nil && (parts.Servers || parts.Rules) && im.keepsNames() {
		err = e.prefix(im.Config.Path)
	}
	if err == nil && parts.Rules {
		e.rename(im.rewrites())
	}
	if err == nil && parts.Hook != nil {
		err = e.hook(im.Reader.HooksFile(), parts.Hook)
	}
	return slices.DeleteFunc(e, func(c clients.Change) bool { return bytes.Equal(c.Text, c.Was) }), err
}

// configure adds the changes to our own files: the variables files, then the configuration,
// which refers to them. A server that is configured already denies from now on what its client denies.
func (im *Import) configure(e *edits) error {
	path := im.Config.Path
	for _, source := range im.Sources {
		if why := im.Reader.Forbidden(source); why != "" {
			return fmt.Errorf("nothing was changed: %s", why)
		}
	}
	added := im.Blocks()
	if added == nil && im.Config.Upstreams == nil {
		return nil
	}
	if path == "" {
		return &Refusal{errors.New("no place for the configuration: neither XDG_CONFIG_HOME nor HOME is set"), "name one with --config"}
	}
	for _, s := range im.newServers() {
		if variables := s.VariablesText(); variables != nil {
			c, err := e.of(im.beside(s.File))
			if err != nil {
				return err
			}
			c.Text = variables
		}
	}
	c, err := e.of(path)
	if err != nil {
		return err
	}
	for i := range im.Config.Upstreams {
		u := &im.Config.Upstreams[i]
		denied := im.denied(u)
		if len(denied) == 0 {
			continue
		}
		if c.Text, err = config.DenyTools(c.Text, u.Name, denied); err == nil {
			_, err = config.Default().Parse(path, c.Text)
		}
		if err != nil || slices.Contains(denied, "*") { // other clients may use the server
			err = fmt.Errorf("nothing was changed: a client denies tools of the server that is upstreams.%s, which does not: %s", u.Name, strings.Join(denied, ", "))
			key, set := config.Key("upstreams", u.Name), im.Config.Positions
			line := cmp.Or(set[key+".tools.deny"], set[key+".tools"], set[key])
			return &Refusal{err, fmt.Sprintf("add them to tools.deny of [%s], %s:%d, which denies them to every client, or remove that rule", key, path, line)}
		}
	}
	c.Text = config.AddUpstreams(c.Text, added)
	if _, err := config.Default().Parse(path, c.Text); err != nil {
		return fmt.Errorf("%s: nothing was written: the imported servers would make it invalid: %v", path, err)
	}
	return nil
}

// ownVariables are variables that decide where mcpschedd keeps its state, and how it reaches a url.
const ownVariables = "XDG_STATE_HOME HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR"

// point adds the changes that make the clients start mcpschedd.
func (im *Import) point(e *edits, line []string) error {
	variables := slices.DeleteFunc(strings.Fields(ownVariables), func(name string) bool { return os.Getenv(name) == "" })
	var longest time.Duration
	for _, u := range im.Config.Upstreams {
		if u.Enabled {
			longest = max(longest, u.Timeout)
			_, _ = u.Resolve(func(name string) (string, bool) { variables = append(variables, name); return "", true })
		}
	}
	pointed, err := im.Reader.Point(line, longest, variables...)
	*e = append(*e, pointed...)
	return err
}

// rewrites returns the changes to clients' rules that name tools of servers that mcpschedd serves.
func (im *Import) rewrites() []clients.Change {
	enabled := 0
	for _, u := range im.Config.Upstreams {
		if u.Enabled {
			enabled++
		}
	}
	for _, s := range im.newServers() {
		if !s.Block.Disabled {
			enabled++
		}
	}
	return im.Reader.Rewrites(im.moved, im.Prefixed(im.Config.Server.NameStyle, enabled))
}

// keepsNames sets name_style to "always", unless the configuration has the key, if rules name tools of servers that
// mcpschedd serves, and reports whether it has. Otherwise a rule could come to name no tool, or another server's, once
// servers are added or disabled.
func (im *Import) keepsNames() bool {
	style := &im.Config.Server.NameStyle
	if im.Config.Positions["server.name_style"] != 0 {
		return false
	}
	if *style == "auto" && len(im.rewrites()) > 0 {
		*style = "always"
	}
	return *style == "always"
}

// edits are changes to files, in order.
type edits []clients.Change

// index returns the index of the change of a file; -1 if there is none.
func (e edits) index(path string) int {
	return slices.IndexFunc(e, func(c clients.Change) bool { return c.Path == path })
}

// of returns the change of a file, which keeps its text if it is new.
func (e *edits) of(path string) (*clients.Change, error) {
	i := e.index(path)
	if i < 0 {
		f, err := state.OpenFile(path)
		if err != nil {
			return nil, err
		}
		i, *e = len(*e), append(*e, clients.Change{Path: path, Was: f.Text, Text: f.Text})
	}
	return &(*e)[i], nil
}

// prefix sets name_style in the configuration.
func (e *edits) prefix(path string) error {
	c, err := e.of(path)
	if err != nil {
		return err
	}
	c.Text = config.PrefixNames(c.Text)
	if _, err := config.Default().Parse(path, c.Text); err != nil {
		return &Refusal{fmt.Errorf("%s: nothing was changed: rules name tools, and name_style cannot be added, as server is not a block", path), `set name_style = "always" there`}
	}
	return nil
}

// rename adds changes to rules. Files that are shared are left.
func (e *edits) rename(rewrites []clients.Change) {
	for _, c := range rewrites {
		switch i := e.index(c.Path); {
		case c.Shared:
		case i >= 0: // a file with servers too
			(*e)[i].Rename(c)
		default:
			*e = append(*e, c)
		}
	}
}

// hook adds the change to Claude Code's settings that makes it report its edits by a command line.
func (e *edits) hook(path string, line []string) error {
	c, err := e.of(path)
	if err != nil {
		return err
	}
	text, err := clients.WithHooks(path, c.Text, line)
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	c.Hooks, c.Text = !bytes.Equal(c.Text, text), text
	return nil
}
