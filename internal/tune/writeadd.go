package tune

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// add writes a key that the file does not have, next to what it has of the same: below
// its header, in its braces, or under the same dotted beginning. Without any it gets a
// block at the end of the file.
func (m *merger) add(p *proposal, value string) error {
	n, depth := m.file.root, 0
	for depth < len(p.path)-1 {
		next := n.at(p.path[depth])
		if next == nil {
			break
		}
		n, depth = next, depth+1
	}
	if p.list() {
		setTree(m.want, p.path, []any{p.value})
	} else {
		setTree(m.want, p.path, p.value)
	}
	rest := toml.Key(p.path[depth:]).String()
	switch {
	case n.how == byBraces:
		return m.addInBraces(n, p, rest, value)
	case n.how == byDots && n.braces != nil:
		return m.addInBraces(n.braces, p, n.written+"."+rest, value)
	case n.how == byDots:
		return m.addLine(n.section, n.line, n.written+"."+rest, p, value)
	case depth < p.block && (n.how == bySection || n.how == byHeader):
		header := "[" + toml.Key(p.path[:p.block]).String() + "]"
		return m.append("", header, m.line("", toml.Key(p.path[p.block:]).String(), p, value))
	case n.how == bySection:
		return m.addLine(n.section, nil, rest, p, value)
	case n.how == byHeader && depth == p.block:
		return m.addBlock(n, p, rest, value)
	}
	return fmt.Errorf("%s is no table", toml.Key(p.path[:depth]))
}

// line is a new line, with its mark. A list is written one element a line.
func (m *merger) line(indent, key string, p *proposal, value string) string {
	if p.list() {
		element := indent + "  " + value + ", " + p.mark()
		return indent + key + " = [" + m.newline + element + m.newline + indent + "]"
	}
	return fmt.Sprintf("%-*s %s", markWidth, indent+key+" = "+value, p.mark())
}

// addLine puts a line behind another one of a section; nil: behind its last.
func (m *merger) addLine(s *tomlSection, after *tomlLine, key string, p *proposal, value string) error {
	at := s.end()
	if after != nil {
		at = after.line.to
	}
	return m.change(textEdit{extent{at, at}, m.newline + m.line(m.indent(s), key, p, value) + m.last(at)})
}

// last is the end of a line that is put behind what has been the last one.
func (m *merger) last(at int) string {
	if at == len(m.text) {
		return m.newline
	}
	return ""
}

// indent is how far the lines of a section are moved in.
func (m *merger) indent(s *tomlSection) string {
	if len(s.statements) == 0 {
		return ""
	}
	line := m.text[s.statements[len(s.statements)-1].line.from:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// addBlock gives a header to a table that had only headers of what is inside it, and
// puts it behind them.
func (m *merger) addBlock(n *tomlNode, p *proposal, rest, value string) error {
	at := 0
	for _, s := range m.file.sections {
		if len(s.path) > p.block && sameKey(s.path[:p.block], p.path[:p.block]) {
			at = s.end()
		}
	}
	text := m.newline + m.newline + "[" + n.written + "]" + m.newline + m.line("", rest, p, value)
	return m.change(textEdit{extent{at, at}, text + m.last(at)})
}

func sameKey(a, b []string) bool { return toml.Key(a).String() == toml.Key(b).String() }

// append puts lines at the end of the file.
func (m *merger) append(lines ...string) error {
	text := strings.Join(lines, m.newline) + m.newline
	switch {
	case len(m.text) == 0:
		text = strings.TrimPrefix(text, m.newline)
	case m.text[len(m.text)-1] != '\n':
		text = m.newline + text
	}
	return m.change(textEdit{extent{len(m.text), len(m.text)}, text})
}

// addInBraces adds a member to an inline table. Its mark stands above the line: in
// braces there is no room for comments.
func (m *merger) addInBraces(n *tomlNode, p *proposal, key, value string) error {
	if p.list() {
		value = "[" + value + "]"
	}
	at := n.value.to - 1
	inner := bytes.TrimRight(m.text[n.value.from+1:at], " \t\r\n")
	member := key + " = " + value
	switch {
	case len(inner) == 0:
		member = " " + member + " "
		return m.change(m.markAbove(n.line, p), textEdit{extent{n.value.from + 1, at}, member})
	case inner[len(inner)-1] != ',':
		member = ", " + member
	default:
		member = " " + member
	}
	at = n.value.from + 1 + len(inner)
	return m.change(m.markAbove(n.line, p), textEdit{extent{at, at}, member})
}

// markAbove puts a mark above a line.
func (m *merger) markAbove(line *tomlLine, p *proposal) textEdit {
	start := m.text[line.line.from:]
	indent := string(start[:len(start)-len(bytes.TrimLeft(start, " \t"))])
	mark := strings.Replace(p.mark(), ": ", ": "+p.Key+": ", 1)
	return textEdit{extent{line.line.from, line.line.from}, indent + mark + m.newline}
}
