package config

import (
	"fmt"
	"slices"

	"mcpschedd/internal/tomlblock"
)

// RemoveUpstream returns a configuration without an upstream, and what was taken out: its
// blocks, the comments right above them, and nothing else.
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
	return append(left, text[at:]...), removed, nil
}

// EnableUpstream returns a configuration in which an upstream has enabled set so. All else,
// comments included, stays as it is.
func EnableUpstream(text []byte, name string, enabled bool) ([]byte, error) {
	blocks, err := upstreamBlocks(text, name)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(blocks, func(b tomlblock.Block) bool { return b.Own })
	if i < 0 {
		return nil, fmt.Errorf("upstream %q has no block of its own: write enabled = %v into one", name, enabled)
	}
	return blocks[i].SetBool(text, "enabled", enabled), nil
}

// upstreamBlocks are the blocks of an upstream, in the order of the text.
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
