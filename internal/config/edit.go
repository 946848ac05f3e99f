package config

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/tomlblock"
)

// AddUpstreams returns a configuration with blocks of upstreams at its end.
func AddUpstreams(text, blocks []byte) []byte {
	out, _, _ := tomlblock.Swap(text, nil, nil, string(blocks)) // fails only if blocks are removed
	return out
}

// RemoveUpstream returns a configuration without the upstream, and the removed text: its blocks
// and the comments directly above them. The removed text ends its last line, so that other text
// can follow it.
func RemoveUpstream(text []byte, name string) (left, removed []byte, err error) {
	mark, text := cutMark(text)
	left, removed, err = tomlblock.Swap(text, []string{"upstreams"}, func(n string) bool { return n == name }, "")
	switch {
	case err != nil:
		return nil, nil, err
	case removed == nil:
		return nil, nil, missing(name)
	case removed[len(removed)-1] != '\n': // it was the end of the file
		removed = append(removed, tomlblock.LineEnd(text)...)
	}
	return slices.Concat(mark, left), removed, nil
}

// EnableUpstream returns a configuration with the upstream's key enabled set, or without the line that
// disabling it has added. The rest of the text does not change.
func EnableUpstream(text []byte, name string, enabled bool) ([]byte, error) {
	return changeUpstream(text, name, func(b tomlblock.Block, text []byte) []byte {
		added := []byte("enabled = false" + tomlblock.LineEnd(text))
		if rest, ok := bytes.CutPrefix(text[b.Body:], added); ok && enabled {
			return slices.Concat(text[:b.Body], rest)
		}
		return b.Set(text, "enabled", strconv.FormatBool(enabled))
	})
}

// DenyTools returns a configuration with globs added to the upstream's key tools.deny, of which the rest does
// not change. It is not valid if there is an empty list, or another table tools.
func DenyTools(text []byte, name string, globs []string) ([]byte, error) {
	line, err := toml.Marshal(map[string]any{"deny": globs})
	if err != nil {
		return nil, err
	}
	list := strings.TrimSpace(strings.TrimPrefix(string(line), "deny = "))
	mark, rest := cutMark(text)
	if end := tomlblock.ListEnd(rest, "upstreams", name, "tools", "deny"); end > 0 {
		return slices.Concat(mark, rest[:end], []byte(", "+strings.Trim(list, "[]")), rest[end:]), nil
	}
	return changeUpstream(text, name, func(b tomlblock.Block, text []byte) []byte { return b.Set(text, "tools.deny", list) })
}

// PrefixNames returns a configuration with name_style = "always". It is not valid if that is set, or if the
// table server is not a block.
func PrefixNames(text []byte) []byte {
	const key, value = "name_style", `"always"`
	mark, rest := cutMark(text)
	blocks, _ := tomlblock.Of(rest) // without them if a table is not a block
	for _, b := range blocks {
		if b.Own && b.Name == "server" {
			return slices.Concat(mark, b.Set(rest, key, value))
		}
	}
	return AddUpstreams(text, []byte("[server]\n"+key+" = "+value+" # rules of clients name tools\n"))
}

// changeUpstream returns a configuration with the upstream's own block changed.
func changeUpstream(text []byte, name string, change func(b tomlblock.Block, text []byte) []byte) ([]byte, error) {
	mark, text := cutMark(text)
	blocks, err := tomlblock.Of(text, "upstreams")
	if err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.Own && b.Name == name {
			return slices.Concat(mark, change(b, text)), nil
		}
	}
	return nil, missing(name)
}

// byteOrderMark is how some editors on Windows begin a file. It is not part of the TOML.
var byteOrderMark = []byte("\ufeff")

// cutMark returns the byte order mark of a text, or nil, and the rest.
func cutMark(text []byte) (mark, rest []byte) {
	if rest, ok := bytes.CutPrefix(text, byteOrderMark); ok {
		return byteOrderMark, rest
	}
	return nil, text
}

func missing(name string) error {
	return fmt.Errorf("no server %q in the configuration, as a block [%s]", name, join("upstreams", name))
}
