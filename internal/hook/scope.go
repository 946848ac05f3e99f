package hook

import (
	"strings"
	"unicode/utf8"

	"mcpschedd/internal/paths"
)

// Within reports whether a call reads files of one directory only, as far as can be seen: neither dir, in which
// its server runs ("" if that is not known), nor a path in its arguments, canonical JSON, is outside. The
// directory may have two paths, of which resolved has no links.
func Within(dir, arguments, path, resolved string) bool {
	return (dir == "" || paths.Within(paths.WithoutLinks(dir), resolved)) && !mayLeave(arguments, path, resolved)
}

// mayLeave reports whether arguments may name a path outside a directory. A shell command has paths in the
// middle of a text.
func mayLeave(arguments, path, resolved string) bool {
	if strings.Contains(arguments, "..") || strings.Contains(arguments, "://") || strings.Contains(arguments, "$") {
		return true
	}
	for i, c := range arguments {
		if c != '/' && c != '~' || i > 0 && isOfName(arguments[i-1]) && !strings.HasSuffix(arguments[:i-1], `\`) { // as in \n
			continue
		}
		in := func(dir string) bool {
			rest, ok := strings.CutPrefix(arguments[i:], dir)
			return ok && (strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, `"`))
		}
		if !in(path) && !in(resolved) {
			return true
		}
	}
	return false
}

// isOfName reports whether a slash after the byte is inside a path, and does not begin one.
func isOfName(b byte) bool {
	return b == '_' || b == '-' || b == '.' || b == '*' || b == '/' || b >= utf8.RuneSelf ||
		'0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z'
}
