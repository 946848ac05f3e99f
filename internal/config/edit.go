package config

import (
	"fmt"
	"slices"

	"mcpschedd/internal/tomlblock"
)

// RemoveUpstream returns a configuration without the upstream, and the removed text: its blocks
// and the comments directly above them. The removed text ends its last line, so that other text
// can follow it.
func RemoveUpstream(text []byte, name string) (left, removed []byte, err error) {
	blocks, err := upstreamBlocks(text, name)
	if err != nil {
		return nil, nil, err
	}
	at := 0
	for _, b := range blocks {
		left = append(left, text[at:b.From]...)
		removed = append(removed, text[b.From:b.To]...)
		at = b.To
	}
	if removed[len(removed)-1] != '\n' { // it was the end of the file
		removed = append(removed, tomlblock.LineEnd(text)...)
	}
	return append(left, text[at:]...), removed, nil
}

// EnableUpstream returns a configuration with the upstream's key enabled set. The rest of the text
// does not change.
func EnableUpstream(text []byte, name string, enabled bool) ([]byte, error) {
	blocks, err := upstreamBlocks(text, name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(blocks, func(b tomlblock.Block) bool { return b.Own })
	if i < 0 {
		return nil, fmt.Errorf("upstream %q has no [%s] block: add one with enabled = %v", name, join("upstreams", name), enabled)
	}
	return blocks[i].SetBool(text, "enabled", enabled), nil
}

// upstreamBlocks returns the blocks of an upstream, at least one, in the order of the text.
func upstreamBlocks(text []byte, name string) ([]tomlblock.Block, error) {
	all, err := tomlblock.Of(text, "upstreams")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(b tomlblock.Block) bool { return b.Name != name })
	if len(all) == 0 {
		return nil, fmt.Errorf("no upstream %q in the configuration", name)
	}
	return all, nil
}
