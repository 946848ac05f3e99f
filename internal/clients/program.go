package clients

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// own reports whether a server is mcpschedd.
func (r *Reader) own(d *draft) bool {
	if len(d.command) == 0 {
		return d.server.Was == "mcpschedd" && loopback.MatchString(d.url.String())
	}
	return path.Base(d.runs()) == "mcpschedd"
}

// runs is the program that a server's command really runs.
func (d *draft) runs() string {
	line := []string{d.command.plain()}
	for _, a := range d.args {
		line = append(line, a.plain())
	}
	return program(line, 4)
}

// launcher is a command that runs another.
type launcher struct {
	words  []string        // that may stand before what it runs
	values map[string]bool // its options that take a value
	names  []string        // of those, the ones that name what it runs
}

func options(names ...string) map[string]bool {
	all := make(map[string]bool)
	for _, n := range names {
		all[n] = true
	}
	return all
}

var packages = launcher{
	words:  []string{"exec", "dlx", "x", "run", "tool", "--"},
	values: options("-p", "--package", "--from", "--with", "--python", "--index", "--index-url", "--directory", "--project", "-c", "--call", "--registry"),
	names:  []string{"-p", "--package", "--from"},
}

var launchers = map[string]launcher{
	"npx": packages, "bunx": packages, "pnpx": packages, "npm": packages, "pnpm": packages, "yarn": packages, "bun": packages,
	"uvx": packages, "uv": packages, "pipx": packages,
	"node": {values: options("-r", "--require", "--import", "--loader")}, "deno": {words: []string{"run"}}, "tsx": {},
	"python": {values: options("-m", "-X", "-W"), names: []string{"-m"}}, "python3": {values: options("-m", "-X", "-W"), names: []string{"-m"}},
	"go":     {words: []string{"run"}, values: options("-C", "-tags", "-modfile")},
	"docker": container, "podman": container,
}

var container = launcher{
	words: []string{"run", "container"},
	values: options("-e", "--env", "-v", "--volume", "--name", "--network", "--net", "--mount", "-p", "--publish", "--env-file", "-w", "--workdir",
		"-u", "--user", "-l", "--label", "--add-host", "--entrypoint", "--platform", "--pull", "-m", "--memory", "--cpus", "--dns", "-h", "--hostname"),
}

// program is the name of what a command line runs: a package, an image, a program
// without its folder. deep bounds launchers that run launchers.
func program(line []string, deep int) string {
	if len(line) == 0 || deep == 0 {
		return ""
	}
	name, args := bare(line[0]), line[1:]
	switch name {
	case "cmd":
		for len(args) > 0 && strings.HasPrefix(args[0], "/") {
			args = args[1:]
		}
		return program(args, deep-1)
	case "env", "exec":
		for len(args) > 0 && (strings.HasPrefix(args[0], "-") || strings.Contains(args[0], "=")) {
			args = args[1:]
		}
		return program(args, deep-1)
	case "sh", "bash", "zsh", "dash":
		for len(args) > 1 && strings.HasPrefix(args[0], "-") {
			if strings.HasSuffix(args[0], "c") {
				return program(strings.Fields(args[1]), deep-1)
			}
			args = args[1:]
		}
		if len(args) == 0 {
			return name
		}
		return bare(args[0])
	}
	l, ok := launchers[name]
	if !ok {
		return name
	}
	return l.program(args, name)
}

// program is what a launcher runs.
func (l launcher) program(args []string, name string) string {
	for i := 0; i < len(args); i++ {
		a := args[i]
		option, value, assigned := strings.Cut(a, "=")
		switch {
		case slices.Contains(l.words, a):
		case strings.HasPrefix(a, "-"):
			if !assigned && l.values[option] && i+1 < len(args) {
				i++
				value = args[i]
			}
			if slices.Contains(l.names, option) && value != "" {
				return unversioned(strings.ReplaceAll(value, "_", "-"))
			}
		case name == "docker" || name == "podman":
			return image.ReplaceAllString(a, "")
		default:
			return script(a)
		}
	}
	return name
}

var (
	image   = regexp.MustCompile(`(?:@sha256:[0-9a-f]+|:[A-Za-z0-9_.-]+)+$`)
	modules = regexp.MustCompile(`node_modules[/\\]((?:@[^/\\]+[/\\])?[^/\\]+)`)
)

// script is the package that a path or a name with a version stands for.
func script(s string) string {
	if m := modules.FindStringSubmatch(s); m != nil {
		return strings.ReplaceAll(m[1], `\`, "/")
	}
	if strings.HasPrefix(s, "@") && strings.Count(s, "/") == 1 {
		return unversioned(s)
	}
	return bare(unversioned(s))
}

// unversioned is a package without the version behind it.
func unversioned(s string) string {
	if i := strings.LastIndex(s, "@"); i > 0 {
		s = s[:i]
	}
	name, _, _ := strings.Cut(s, "==")
	return name
}

// bare is a program without its folder.
func bare(s string) string {
	s = path.Base(strings.ReplaceAll(s, `\`, "/"))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		if n := len(s) - len(end); n > 0 && strings.EqualFold(s[n:], end) {
			return s[:n]
		}
	}
	return s
}
