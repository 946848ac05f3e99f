package valuemodel

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	By       string   // what identifies the server, for display: "npm package @acme/tickets"
	Bare     bool     // only a program name identifies it, which counts no more than the server's own name
	Flags    []string // flags in the settings that some provider's table mentions

	// Shareable reports that the server keeps no session state, so that one process may
	// serve several sessions.
	Shareable bool
}

// Recognise returns the known server that a command line starts or a URL addresses. It
// identifies the server by the package that a runner such as npx, uvx, docker or go run runs,
// by the package directory below node_modules, or by the exact host of a URL. It ignores
// versions, directories and the runner's own options. The scope of an npm package and the
// namespace of an image are part of the name. Packages from files or repositories, or under
// an alias, are not recognised.
func Recognise(s Settings) Recognised {
	r := Recognised{Flags: s.knownFlags()}
	ref, rest := s.reference()
	provider, known := loadSummary().References[ref]
	if requires := loadSummary().Requires[provider]; !known || len(requires) > 0 && !r.has(requires) {
		return r
	}
	kind, name, _ := strings.Cut(ref, ":")
	r.Provider, r.By, r.Bare = provider, kinds[kind]+" "+name, kind == program
	r.Shareable = loadSummary().Shareable[ref].allows(s, rest)
	return r
}

// has reports whether one of the flags is set.
func (r Recognised) has(flags []string) bool {
	return slices.ContainsFunc(flags, func(flag string) bool { return slices.Contains(r.Flags, flag) })
}

// Kinds of references, used as prefixes: "npm:@acme/tickets".
const (
	npm     = "npm"
	pypi    = "pypi"
	image   = "docker"
	module  = "go"
	program = "program"
	host    = "host"
	nodeBin = "bin" // a program in node_modules/.bin
)

var kinds = map[string]string{
	npm: "npm package", pypi: "PyPI package", image: "image", module: "Go package", program: "program", host: "host", nodeBin: "node_modules/.bin",
}

// reference returns what the settings start or address, as "kind:name", and the arguments
// after it; "" if it is unknown.
func (s Settings) reference() (ref string, rest []string) {
	if s.URL != "" {
		return hostReference(s.URL), nil
	}
	ref, rest = parseCommandLine(append([]string{s.Command}, s.Args...))
	if ref != npm+":mcp-remote" { // a bridge to the server at a URL argument
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
	return host + ":" + name
}

// runner is a command that runs a package named in its arguments.
type runner struct {
	kind   string
	first  string // subcommands, one of which must precede the package; "" if none is required
	flags  string // options without a value
	values string // options with a value
	names  string // options whose value names the package
}

// runners are the known runners by command. An unlisted option may change what is run, so
// with one nothing is recognised.
var runners = map[string][]runner{
	"npx":    {{kind: npm, flags: npmFlags, values: npmValues, names: "-p --package"}},
	"pnpx":   {{kind: npm, flags: npmFlags, names: "-p --package"}},
	"bunx":   {{kind: npm, flags: npmFlags + " --bun --no-install --verbose", names: "-p --package"}},
	"npm":    {{kind: npm, first: "exec x", flags: npmFlags, values: npmValues, names: "-p --package"}},
	"pnpm":   {{kind: npm, first: "dlx", flags: npmFlags, names: "--package"}},
	"yarn":   {{kind: npm, first: "dlx", flags: npmFlags, names: "-p --package"}},
	"bun":    {{kind: npm, first: "x", flags: npmFlags + " --bun", names: "-p --package"}},
	"uvx":    {{kind: pypi, flags: uvFlags, values: uvValues, names: "--from"}},
	"uv":     {{kind: pypi, first: "tool", flags: uvFlags + " run", values: uvValues, names: "--from"}, {kind: program, first: "run", flags: uvFlags, values: uvValues}},
	"pipx":   {{kind: pypi, first: "run", flags: "-q --quiet -v --verbose --no-cache", values: "--python --index-url -i --pip-args", names: "--spec"}},
	"go":     {{kind: module, first: "run", flags: "-v -x -race -trimpath", values: "-tags"}},
	"docker": {container}, "podman": {container}, "nerdctl": {container},
}

const (
	npmFlags  = "-y --yes -q --quiet -s --silent --offline --prefer-offline --prefer-online --no-audit --no-fund --"
	npmValues = "--registry --cache --loglevel --prefix"
	uvFlags   = "-q --quiet -v --verbose -n --no-cache --offline --isolated --refresh -U --upgrade --native-tls --no-progress --no-config"
	uvValues  = "-p --python --with --directory --project --cache-dir --env-file --index-url --default-index --index -i"
)

var container = runner{
	kind: image, first: "run", flags: "container --rm --init --read-only --privileged --interactive --tty --detach --quiet --no-healthcheck --publish-all",
	values: "-e --env --env-file -v --volume --mount --tmpfs --name --network --net --network-alias -p --publish -w --workdir -u --user -l --label --add-host --platform --pull -m --memory --memory-swap --cpus --dns -h --hostname --cap-add --cap-drop --security-opt --device --gpus --group-add --ulimit --log-driver --log-opt --restart --shm-size --stop-timeout --pids-limit --ip --link --expose --runtime --userns --ipc --pid --cgroupns --tz",
}

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
	switch name {
	case "node", "bun":
		if i := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") }); i >= 0 && !slices.ContainsFunc(args[:i], loadsCode) {
			if ref := nodePackage(args[i]); ref != "" {
				return ref, args[i+1:]
			}
		}
	case "python", "python3":
		if len(args) > 1 && args[0] == "-m" {
			return program + ":" + strings.ReplaceAll(args[1], "_", "-"), args[2:]
		}
	}
	for _, r := range runners[name] {
		if ref, rest = r.parse(args); ref != "" {
			return ref, rest
		}
	}
	if runners[name] != nil {
		return "", nil
	}
	return cmp.Or(nodePackage(line[0]), program+":"+name), args
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

func loadsCode(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return slices.Contains(strings.Fields("-r --require --import --loader --experimental-loader -e --eval -p --print -C --conditions"), name)
}

// parse returns the package that the runner's arguments name, and the arguments after it.
func (r runner) parse(args []string) (ref string, rest []string) {
	within := func(list, word string) bool { return slices.Contains(strings.Fields(list), word) }
	first, named := r.first == "", ""
	for i := 0; i < len(args); i++ {
		option, value, assigned := strings.Cut(args[i], "=")
		switch {
		case !first && within(r.first, args[i]):
			first = true
		case within(r.flags, args[i]), r.kind == image && strings.Trim(args[i], "-itdqP") == "" && !strings.HasPrefix(args[i], "--"):
		case within(r.values, option), within(r.names, option):
			if !assigned {
				if i++; i == len(args) {
					return "", nil
				}
				value = args[i]
			}
			if within(r.names, option) {
				if named != "" {
					return "", nil
				}
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

var (
	npmName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^((?:@[\w.~-]+/)?[\w.~-]+)(?:@[\w.^~<>=*+-]*)?$`) })
	pypiName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([A-Za-z0-9._-]*[A-Za-z0-9])(?:\[[\w,.-]*\])?(?:(?:@|[=<>!~]=?=?)[\w.*<>=!~,+-]*)?$`)
	})
	imageName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([\w.-]+(?::\d+)?(?:/[\w.-]+)*)(?::[\w.-]+)?(?:@sha256:[0-9a-f]+)?$`)
	})
	moduleName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([\w.-]+\.[\w-]+/[\w./~-]+)@[\w.+-]+$`) })
	separators = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[-_.]+`) })
)

// reference returns the name of a package without its version; "" if it does not come from
// the registry of its kind.
func (r runner) reference(text string) string {
	pattern := map[string]func() *regexp.Regexp{npm: npmName, pypi: pypiName, image: imageName, module: moduleName}[r.kind]
	if pattern == nil {
		return r.kind + ":" + programName(text)
	}
	m := pattern().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	name := m[1]
	switch r.kind {
	case pypi:
		name = strings.ToLower(separators().ReplaceAllString(name, "-"))
	case image:
		name = strings.TrimPrefix(strings.TrimPrefix(name, "index."), "docker.io/")
	}
	return r.kind + ":" + name
}

// nodePackage returns the npm package that contains a path below node_modules.
func nodePackage(file string) string {
	_, below, found := strings.Cut(strings.ReplaceAll(file, `\`, "/"), "node_modules/")
	for found { // find the innermost node_modules
		_, inner, deeper := strings.Cut(below, "node_modules/")
		if !deeper {
			break
		}
		below = inner
	}
	parts := strings.Split(below, "/")
	switch {
	case !found || slices.Contains(parts, ".."):
		return ""
	case len(parts) == 2 && parts[0] == ".bin":
		return nodeBin + ":" + programName(parts[1])
	case len(parts) > 2 && strings.HasPrefix(parts[0], "@"):
		return npm + ":" + parts[0] + "/" + parts[1]
	case len(parts) > 1:
		return npm + ":" + parts[0]
	}
	return ""
}

// programName returns the base name of a program without its Windows extension.
func programName(file string) string {
	file = path.Base(strings.ReplaceAll(file, `\`, "/"))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		if n := len(file) - len(end); n > 0 && strings.EqualFold(file[n:], end) {
			return file[:n]
		}
	}
	return file
}

// knownFlags returns the flags of the tables that the settings contain, as written in the
// tables. It ignores a flag that is given twice, as servers differ on which one applies.
func (s Settings) knownFlags() []string {
	given := make(map[string][]string) // name without dashes → values
	for name, value := range s.Env {
		given[name] = append(given[name], value)
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
		if len(values) == 1 && (!valued && !slices.Contains([]string{"false", "0"}, values[0]) || valued && strings.EqualFold(values[0], want)) {
			have = append(have, flag)
		}
	}
	return have
}
