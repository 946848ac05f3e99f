package valuemodel

import (
	"cmp"
	_ "embed"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
)

// Settings are the configured ways to reach a server: a command line with environment
// variables, or a URL.
type Settings struct {
	Command string
	Args    []string
	Env     map[string]string
	URL     string
}

// Recognised is a known server that was recognised by its settings.
type Recognised struct {
	Provider string   // name of the provider; "" if the server is unknown
	By       string   // what identifies the server: "npm:@acme/tickets"
	Bare     bool     // only a program name identifies it, which counts no more than the server's own name
	Flags    []string // flags in the settings that some provider's table mentions, with ! before one with another value

	// Shareable reports that the server keeps no session state, so that one process may
	// serve several sessions.
	Shareable bool
}

// Recognise returns the known server that a command line starts or a URL addresses. It
// identifies the server by the package that a runner such as npx, uvx, docker or go run
// runs, by the package directory below node_modules, by the exact host of a URL, or else by
// the name of the program. It ignores versions, directories and the runner's own options.
// The scope of an npm package and the namespace of an image are part of the name. Packages
// from files or repositories, or under an alias, are not recognised.
func Recognise(s Settings) Recognised {
	r := Recognised{Flags: s.knownFlags()}
	ref, rest := s.reference()
	provider, known := loadSummary().References[ref]
	if requires := loadSummary().Requires[provider]; !known || len(requires) > 0 && !r.has(requires) {
		return r
	}
	r.Provider, r.By, r.Bare = provider, ref, strings.HasPrefix(ref, kindProgram+":")
	r.Shareable = loadSummary().Shareable[ref].allows(s, rest)
	return r
}

// has reports whether one of the flags is set, and none is set to another value.
func (r Recognised) has(flags []string) bool {
	set := func(flag string) bool { return slices.Contains(r.Flags, flag) }
	refused := func(flag string) bool { return slices.Contains(r.Flags, "!"+flag) }
	return slices.ContainsFunc(flags, set) && !slices.ContainsFunc(flags, refused)
}

// Kinds of references, used as prefixes: "npm:@acme/tickets".
const (
	kindNPM     = "npm"
	kindPyPI    = "pypi"
	kindImage   = "docker"
	kindModule  = "go"
	kindProgram = "program"
	kindHost    = "host"
	kindBin     = "bin"  // a program in node_modules/.bin
	kindFile    = "file" // of a package in node_modules; only of runners
)

// reference returns what the settings start or address, as "kind:name", and the arguments
// after it; "" if it is unknown.
func (s Settings) reference() (ref string, rest []string) {
	if s.URL != "" {
		return hostReference(s.URL), nil
	}
	ref, rest = parseCommandLine(append([]string{s.Command}, s.Args...))
	if ref != kindNPM+":mcp-remote" { // a bridge to the server at a URL argument
		return ref, rest
	}
	i := slices.IndexFunc(rest, func(arg string) bool { return strings.Contains(arg, "://") })
	if i < 0 {
		return "", nil
	}
	return hostReference(rest[i]), nil
}

func hostReference(url string) string {
	name, ok := urlHost(url)
	if !ok || !strings.HasPrefix(strings.ToLower(url), "https:") {
		return ""
	}
	return kindHost + ":" + name
}

// runner is an entry of runners.toml, which documents the fields.
type runner struct {
	Commands                    []string
	Kind                        string
	First, Flags, Values, Names []string
}

//go:embed runners.toml
var runnersFile string

// runners returns the known runners by command.
var runners = sync.OnceValue(func() map[string][]runner {
	var table struct{ Runner []runner }
	if _, err := toml.Decode(runnersFile, &table); err != nil {
		panic(err) // embedded
	}
	all := make(map[string][]runner)
	for _, r := range table.Runner {
		for _, command := range r.Commands {
			all[command] = append(all[command], r)
		}
	}
	return all
})

// parseCommandLine returns what a command line starts, as "kind:name", and the arguments
// after it.
func parseCommandLine(line []string) (ref string, rest []string) {
	for len(line) > 0 && wrapper(line) {
		line = line[1:]
		for len(line) > 0 && (strings.HasPrefix(line[0], "/") && len(line[0]) == 2 || strings.Contains(line[0], "=")) {
			line = line[1:]
		}
	}
	if len(line) == 0 {
		return "", nil
	}
	name, args := programName(line[0]), line[1:]
	if strings.HasPrefix(name, "python") && len(args) > 1 && args[0] == "-m" {
		return kindProgram + ":" + strings.ReplaceAll(args[1], "_", "-"), args[2:]
	}
	for _, r := range runners()[name] {
		if ref, rest = r.parse(args); ref != "" {
			return ref, rest
		}
	}
	if runners()[name] != nil {
		return "", nil
	}
	return cmp.Or(nodePackage(line[0]), kindProgram+":"+name), args
}

// wrapper reports whether a command line begins with one that runs the rest of it.
func wrapper(line []string) bool {
	switch programName(line[0]) {
	case "env":
		return true
	case "cmd":
		return len(line) > 1 && strings.EqualFold(line[1], "/c")
	}
	return false
}

// parse returns the package that the runner's arguments name, and the arguments after it.
func (r runner) parse(args []string) (ref string, rest []string) {
	first, named := r.First == nil, ""
	for i := 0; i < len(args); i++ {
		option, value, assigned := strings.Cut(args[i], "=")
		isName := slices.Contains(r.Names, option)
		switch {
		case !first && slices.Contains(r.First, args[i]):
			first = true
		case slices.Contains(r.Flags, args[i]), r.Kind == kindImage && containerFlags().MatchString(args[i]):
		case isName || slices.Contains(r.Values, option):
			if !assigned {
				if i++; i == len(args) {
					return "", nil
				}
				value = args[i]
			}
			if isName && named != "" {
				return "", nil
			} else if isName {
				named = value
			}
		case !first || strings.HasPrefix(args[i], "-"):
			return "", nil
		default:
			return r.reference(cmp.Or(named, args[i])), args[i+1:]
		}
	}
	return "", nil
}

var containerFlags = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-[itdqP]+$`) })

// packageForms match packages from the registry of a kind; group 1 is the name without
// the version.
var packageForms = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		kindNPM:    regexp.MustCompile(`^((?:@[\w.~-]+/)?[\w.~-]+)(?:@[\w.^~<>=*+-]*)?$`),
		kindPyPI:   regexp.MustCompile(`^([A-Za-z0-9._-]*[A-Za-z0-9])(?:\[[\w,.-]*\])?(?:(?:@|[=<>!~]=?=?)[\w.*<>=!~,+-]*)?$`),
		kindImage:  regexp.MustCompile(`^(?:(?:index\.)?docker\.io/)?([\w.-]+(?::\d+)?(?:/[\w.-]+)*)(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?$`),
		kindModule: regexp.MustCompile(`^([\w.-]+\.[\w-]+/[\w./~-]+)@[\w.+-]+$`),
	}
})

// reference returns the name of a package without its version; "" if it does not come
// from the registry of its kind.
func (r runner) reference(text string) string {
	switch r.Kind {
	case kindProgram:
		return kindProgram + ":" + programName(text)
	case kindFile:
		return nodePackage(text)
	}
	m := packageForms()[r.Kind].FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	if r.Kind == kindPyPI {
		m[1] = strings.Join(strings.FieldsFunc(strings.ToLower(m[1]), func(c rune) bool { return strings.ContainsRune("-_.", c) }), "-")
	}
	return r.Kind + ":" + m[1]
}

// modulePath matches a file below the innermost node_modules; group 1 is the program of
// a package that is not named, group 2 the package.
var modulePath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:.*/)?node_modules/(?:\.bin/([^/]+)|((?:@[^/]+/)?[^/@][^/]*)/.*)$`)
})

// nodePackage returns the npm package that contains a path below node_modules.
func nodePackage(path string) string {
	path = strings.ReplaceAll(path, `\`, "/")
	m := modulePath().FindStringSubmatch(path)
	switch {
	case m == nil || strings.Contains(path[strings.LastIndex(path, "node_modules/"):], "/.."):
		return ""
	case m[1] != "":
		return kindBin + ":" + programName(m[1])
	}
	return kindNPM + ":" + m[2]
}

// windowsExtension matches the extension of a program on Windows.
var windowsExtension = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(.)\.(?:exe|cmd|bat)$`) })

// programName returns the base name of a program without its Windows extension.
func programName(file string) string {
	return windowsExtension().ReplaceAllString(path.Base(strings.ReplaceAll(file, `\`, "/")), "$1")
}

// knownFlags returns the flags of the tables that the settings contain, as written in the
// tables. A flag that is given twice counts as one with another value, as servers differ on
// which one applies.
func (s Settings) knownFlags() []string {
	startsContainer := func(word string) bool { // perhaps behind env or cmd /c
		return slices.ContainsFunc(runners()[programName(word)], func(r runner) bool { return r.Kind == kindImage })
	}
	given := make(map[string][]string) // name without dashes → values
	inContainer := startsContainer(s.Command) || slices.ContainsFunc(s.Args, startsContainer)
	for name, value := range s.Env {
		if !inContainer || slices.Contains(s.Args, name) { // a container has only the variables that its options name
			given[name] = append(given[name], value)
		}
	}
	for i, arg := range s.Args {
		name, value, assigned := strings.Cut(arg, "=")
		if !assigned && i+1 < len(s.Args) && !strings.HasPrefix(s.Args[i+1], "-") {
			value = s.Args[i+1]
		}
		if assigned || strings.HasPrefix(arg, "-") {
			given[strings.TrimLeft(name, "-")] = append(given[strings.TrimLeft(name, "-")], value)
		}
	}
	var have []string
	for _, flag := range loadSummary().Flags {
		name, want, valued := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		values := given[name]
		off := func(value string) bool {
			return slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(value))
		}
		switch {
		case len(values) == 1 && (!valued && !off(values[0]) || valued && strings.EqualFold(values[0], want)):
			have = append(have, flag)
		case len(values) > 0:
			have = append(have, "!"+flag)
		}
	}
	return have
}
