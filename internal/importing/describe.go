package importing

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/valuemodel"
)

// Outcome describes what becomes of the server.
func (im *Import) Outcome(s clients.Server) string {
	what := im.obstacle(s)
	if what == "" {
		what = "would be imported"
		if s.Name != s.Plain() {
			what += " as upstreams." + s.Name
		}
		if provider := providerOf(s); provider != "" {
			what += ", recognised as " + provider
		}
		if s.Block.Disabled {
			what += ", disabled"
		}
	}
	if folders := s.Block.Folders; len(folders) > 0 {
		what += " (only in " + strings.Join(folders, ", ") + ")"
	}
	return what
}

// obstacle describes why a server is not added to the configuration; "" if it is.
func (im *Import) obstacle(s clients.Server) string {
	switch {
	case s.Stays != "":
		return "stays with its client: " + s.Stays
	case !s.New && im.upstream(s.Name) == nil:
		return "becomes upstreams." + s.Name + " too, as it is the same server"
	case !s.New:
		return "is already configured as upstreams." + s.Name
	}
	return ""
}

// providerOf returns the provider that the server's configuration identifies; "" if the server is
// unknown, and its tools are neither cached nor prefetched unless it is trusted.
func providerOf(s clients.Server) string {
	r := valuemodel.Recognise(valuemodel.Settings{Command: s.Block.Command, Args: s.Block.Args, URL: s.Block.URL})
	if r.Bare && !s.Block.Trust { // identified only by the name of a program
		return ""
	}
	return r.Provider
}

// Summary describes the servers that are imported; "" if none is.
func (im *Import) Summary() string {
	names, from := make(map[string]bool), make(map[string]bool)
	for _, s := range im.Reader.Servers() {
		if s.Stays == "" {
			names[s.Name], from[clientOf(s)] = true, true
		}
	}
	if len(names) == 0 {
		return ""
	}
	what := "1 server"
	if len(names) > 1 {
		what = fmt.Sprintf("%d servers", len(names))
	}
	return what + " of " + strings.Join(slices.Sorted(maps.Keys(from)), ", ")
}

// clientOf returns the title of the server's client, or its file if that is of none.
func clientOf(s clients.Server) string {
	if named := clients.ByName(s.From.Client); named != nil {
		return named[0].Title
	}
	return s.From.File
}

// Notes returns notes on the files, and on the servers that are not imported or unknown.
func (im *Import) Notes() []string {
	all := slices.Clone(im.Reader.Notes())
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	var unknown []string
	for _, s := range im.Reader.Servers() {
		why := im.obstacle(s)
		if why == "" && s.Name != s.Plain() {
			offered := ""
			if s.Block.Folders == nil && !s.Block.Disabled {
				offered = "; every client is offered both: mcpschedd disable hides one"
			}
			note("%s of %s becomes upstreams.%s, as another server has the name%s", s.Called, clientOf(s), s.Name, offered)
		}
		if why == "" && slices.Contains(s.Block.DenyTools, "*") {
			note("upstreams.%s denies all its tools, to every client, as Claude Code's rules do", s.Name)
		}
		if u := im.upstream(s.Name); why != "" && s.Block.Trust && u != nil && !u.Trust {
			why += "; " + im.toTrust(u.Name)
		}
		if why != "" {
			note("%s %s", s.Called, why)
		} else if !s.Block.Trust && providerOf(s) == "" && !slices.Contains(unknown, s.Name) {
			unknown = append(unknown, s.Name)
		}
	}
	for i := range im.Config.Upstreams {
		u := &im.Config.Upstreams[i]
		if denied := im.denied(u); len(denied) > 0 {
			note("upstreams.%s denies from now on, as a client does: %s", u.Name, strings.Join(denied, ", "))
		}
	}
	if len(unknown) > 0 {
		note("calls of these unknown servers only pass through: %s; mcpschedd check --connect -v shows their tool annotations, and trust = true in a server's block, or --trust when it is imported or added, trusts them", strings.Join(unknown, ", "))
	}
	if im.Summary() == "" {
		note("nothing is imported")
	}
	return all
}

// toTrust says how to trust a server that is configured already.
func (im *Import) toTrust(name string) string {
	return fmt.Sprintf("to trust its tool annotations, set trust = true in [upstreams.%s] of %s", name, im.Config.Path)
}

// Rules describes rules that need new names and are not changed. permissions means that those in
// files of the user are.
func (im *Import) Rules(permissions bool) (all []string) {
	im.keepsNames()
	for _, c := range im.rewrites() {
		switch {
		case c.Shared:
			all = append(all, c.Renames()+" (change this by hand, as the file is shared)")
		case !permissions:
			all = append(all, c.Renames()+" (import --permissions applies this)")
		}
	}
	return all
}

// Steps returns what the user should do after the changes.
func (im *Import) Steps(parts Parts, changes []clients.Change) (all []string) {
	keepsNames := false
	if parts.Servers || parts.Rules {
		all, keepsNames = im.Rules(parts.Rules), im.keepsNames()
	}
	if parts.Servers {
		for _, s := range im.Reader.Servers() {
			if s.Stays == "" {
				all = append(all, im.stepsOf(s)...)
			}
		}
		if len(im.newServers()) > 0 { // a client's first session would not wait for a server that is slow to start
			all = append(all, "mcpschedd check --connect starts each server once, so that the first session has all tools")
		}
	}
	if keepsNames {
		all = append(all, `restart the clients: since rules name tools, these are named NAME__TOOL from now on, however many servers there are (name_style = "always" in [server])`)
	} else if slices.ContainsFunc(changes, func(c clients.Change) bool { return c.Client }) {
		all = append(all, "restart the clients: they read their files at start-up")
	}
	return all
}

// stepsOf returns what the user should do for a server that is moved, and that has its file of variables.
func (im *Import) stepsOf(s clients.Server) (all []string) {
	all = im.Reader.Advice(s)
	if s.New && !s.Block.Disabled && s.Variables.Unset == nil {
		if _, err := asUpstream(s, im.beside("")).Resolve(os.LookupEnv); err != nil { // such as of a variable that is not set
			all = append(all, fmt.Sprintf("set what %s needs to start: %s", s.Name, strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	for _, u := range s.Variables.Unset {
		all = append(all, fmt.Sprintf("set %s in %s: %s", u.Name, im.beside(s.File), u.Why))
	}
	for _, d := range s.Variables.Defaults {
		if now := os.Getenv(d.Name); now != "" && now != d.Value {
			all = append(all, fmt.Sprintf("check %s in %s: it has the client's default, which overrides the environment's value", d.Name, im.beside(s.File)))
		}
	}
	return all
}
