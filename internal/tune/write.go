package tune

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// MergeOptions say what [Merge] cannot know. The zero value works.
type MergeOptions struct {
	// Alone says whether a block under a tool's bare name can only be about this
	// tool, "upstream/tool": proposals then go there if it has no block under its
	// full name. nil: it can.
	Alone func(tool string) bool
}

// Merged is what came of it.
type Merged struct {
	Text    []byte   // the whole file; as it was, if nothing changed
	Changes int      // settings and comments that were added or brought up to date
	Kept    []string // proposals that give way to what the user has set, in words
}

// Merge puts a layer into the text of a configuration, which must be valid TOML. What
// the user wrote stays, byte for byte: a proposal is added where nothing is set, and
// takes the place of one that was put there before and has not been touched since.
// Merging the same again changes nothing.
//
// The outcome is decoded and compared with what was meant before it is returned; an
// error says that it cannot be done.
func Merge(text []byte, l Layer, o MergeOptions) (Merged, error) {
	mark := []byte("\ufeff")
	if !bytes.HasPrefix(text, mark) {
		mark = nil
	}
	m := &merger{MergeOptions: o, newline: "\n", text: text[len(mark):]}
	if n := bytes.IndexByte(m.text, '\n'); n > 0 && m.text[n-1] == '\r' {
		m.newline = "\r\n"
	}
	var err error
	if m.want, err = decodeFile(m.text); err != nil {
		return Merged{}, err
	}
	for _, b := range l.Blocks {
		for _, line := range b.Lines {
			if err := m.propose(b.Tool, line); err != nil {
				return Merged{}, fmt.Errorf("%s: %w", fullKey(b.Tool, line.Key), err)
			}
		}
	}
	have, err := decodeFile(m.text)
	switch {
	case err != nil:
		return Merged{}, fmt.Errorf("the outcome cannot be read: %w", err)
	case !sameValue(have, m.want):
		return Merged{}, errors.New("the outcome would not say what is meant")
	}
	m.Merged.Text = append(mark, m.text...)
	return m.Merged, nil
}

// Render is a layer as a file of its own, with what it was made of.
func Render(l Layer) ([]byte, error) {
	m, err := Merge(nil, l, MergeOptions{})
	if err != nil || m.Changes == 0 {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Proposed by mcpschedd tune, from:\n")
	for _, s := range l.Sources {
		fmt.Fprintf(&b, "#   %s: %d calls of %d sessions%s\n", oneLine(s.Name), s.Calls, s.Sessions, s.period())
	}
	b.WriteString("# Behind each setting stands what speaks for it. Use this as a second --config of\n" +
		"# replay, or let tune --write put it into your configuration.\n\n")
	b.Write(bytes.TrimLeft(m.Text, "\n"))
	return b.Bytes(), nil
}

// period is when the calls of a source were made.
func (s Source) period() string {
	if s.From <= 0 {
		return ""
	}
	day := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }
	if day(s.From) == day(s.To) {
		return ", " + day(s.From)
	}
	return ", " + day(s.From) + " to " + day(s.To)
}

// merger is a file that is being changed, one proposal after the other.
type merger struct {
	MergeOptions
	Merged
	text    []byte
	newline string
	want    map[string]any // what the file must say in the end
	file    *tomlFile      // the text, taken apart; nil: it has changed since
}

// proposal is one line of a layer, and where it belongs.
type proposal struct {
	Line
	tool  string   // "" for [enrichment]
	path  []string // in the file
	block int      // how many parts of path are the block's
	value any
}

// list reports whether the value is one element of a list.
func (p *proposal) list() bool {
	last := p.path[len(p.path)-1]
	return p.block == 2 && len(p.path) == 3 && (last == "follow_up" || last == "invalidates")
}

// sum is what marks the value.
func (p *proposal) sum(value any) string { return valueSum(p.tool, p.Key, value) }

func (p *proposal) mark() string { return evidenceMark(p.tool, p.Key, p.value, p.Evidence) }

// fullKey is a key of a block as it would be written by itself.
func fullKey(tool, key string) string {
	path := []string{"enrichment"}
	if tool != "" {
		path = []string{"tools", tool}
	}
	return toml.Key(append(path, strings.Split(key, ".")...)).String()
}

// propose puts one line into the file, where that may be done.
func (m *merger) propose(tool string, l Line) error {
	value, err := decodeValue(l.Value)
	if err != nil {
		return err
	}
	if m.file == nil {
		if m.file, err = readFile(m.text); err != nil {
			return err
		}
	}
	p := &proposal{Line: l, tool: tool, value: value, path: []string{"enrichment"}, block: 1}
	if tool != "" {
		p.path, p.block = []string{"tools", m.blockOf(tool)}, 2
	}
	p.path = append(p.path, strings.Split(l.Key, ".")...)
	switch {
	case l.Advice:
		return m.advise(p)
	case m.declined(p):
		m.keep(p, "is a comment")
		return nil
	case p.list():
		return m.element(p)
	}
	return m.setting(p)
}

// blockOf is the name of the block that a tool's proposals go to.
func (m *merger) blockOf(tool string) string {
	tools := m.file.root.at("tools")
	bare := bareName(tool)
	if tools.at(tool) == nil && tools.at(bare) != nil && (m.Alone == nil || m.Alone(tool)) {
		return bare
	}
	return tool
}

// bareName is a tool's name without its upstream's.
func bareName(tool string) string {
	if _, name, ok := strings.Cut(tool, "/"); ok && name != "" {
		return name
	}
	return tool
}

// keep notes that the user's word stands.
func (m *merger) keep(p *proposal, why string) {
	m.Kept = append(m.Kept, fmt.Sprintf("%s %s; proposed: %s (%s)", fullKey(p.tool, p.Key), why, p.Value, oneLine(p.Evidence)))
}

// declined reports whether the user has made a comment of the setting.
func (m *merger) declined(p *proposal) bool {
	for want, texts := range m.file.switchedOff() {
		for _, text := range texts {
			old, ok := p.within(text)
			if ok && p.sum(old) == want && (!p.list() || identity(p.tool, old) == identity(p.tool, p.value)) {
				return true
			}
		}
	}
	return false
}

// within reads the value that a line sets which has been made a comment, if it sets
// this key.
func (p *proposal) within(text string) (any, bool) {
	if p.list() {
		tree, err := decodeFile([]byte("x = [" + text + "\n]"))
		list, _ := elements(tree["x"])
		if err == nil && len(list) == 1 {
			return list[0], true
		}
	}
	tree, err := decodeFile([]byte(text))
	if err != nil {
		return nil, false
	}
	for from := range len(p.path) { // below the block, or from further out
		var v any = tree
		for _, part := range p.path[from:] {
			table, _ := v.(map[string]any)
			v = table[part]
		}
		if v != nil {
			return v, true
		}
	}
	return nil, false
}

// setting adds a value, or brings it up to date.
func (m *merger) setting(p *proposal) error {
	n := m.file.root.at(p.path...)
	if n == nil {
		if bare := bareName(p.tool); bare != p.path[1] && p.block == 2 {
			if by := m.file.root.at(append([]string{"tools", bare}, p.path[2:]...)...); by != nil && (m.Alone == nil || m.Alone(p.tool)) {
				m.keep(p, "is set under the tool's bare name")
				return nil
			}
		}
		return m.add(p, p.Value)
	}
	old := lookUp(m.want, p.path)
	if sameValue(old, p.value) {
		return nil
	}
	if n.line == nil || n.value.to == 0 {
		m.keep(p, "is a table")
		return nil
	}
	c, ours := m.file.owns(n.line.comments(), p.sum(old))
	if !ours {
		m.keep(p, "is set by hand")
		return nil
	}
	setTree(m.want, p.path, p.value)
	return m.change(textEdit{n.value, p.Value}, textEdit{c, m.remark(c, p)})
}

// remark is the mark that takes the place of an older one. In braces, where a comment
// cannot stand, it stands above and says what it is about.
func (m *merger) remark(old extent, p *proposal) string {
	if text := m.file.text[old.from:old.to]; bytes.Contains(text, []byte(": "+p.Key+": ")) {
		return strings.Replace(p.mark(), ": ", ": "+p.Key+": ", 1)
	}
	return p.mark()
}

// change makes a change of the file.
func (m *merger) change(edits ...textEdit) error {
	text, err := applyEdits(m.text, edits...)
	if err != nil {
		return err
	}
	m.text, m.file = text, nil
	m.Changes++
	return nil
}

// advise writes advice: a comment that holds the setting as it would be written. What
// the user has made of the comment stays.
func (m *merger) advise(p *proposal) error {
	line := fullKey(p.tool, p.Key) + " = " + p.Value
	text := "# tune " + p.sum(p.value) + " advice: " + line + " # " + oneLine(p.Evidence)
	for _, c := range m.file.comments {
		found := advised.FindSubmatch(m.file.text[c.from:c.to])
		if found == nil {
			continue
		}
		tree, err := decodeFile(found[2])
		old := lookUp(tree, append(pathOf(p.tool), strings.Split(p.Key, ".")...))
		if err != nil || old == nil || p.list() && identity(p.tool, old) != identity(p.tool, p.value) {
			continue
		}
		if sameValue(old, p.value) || p.sum(old) != string(found[1]) {
			return nil
		}
		return m.change(textEdit{c, text})
	}
	if set := lookUp(m.want, p.path); set != nil && !p.list() && sameValue(set, p.value) {
		return nil // it was taken
	}
	at, indent := len(m.text), ""
	if n := m.file.root.at(p.path[:p.block]...); n != nil && n.how == bySection {
		at, indent = n.section.end(), m.indent(n.section)
	}
	if at == len(m.text) {
		return m.append(text)
	}
	return m.change(textEdit{extent{at, at}, m.newline + indent + text})
}
