package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/tailscale/hujson"
)

// HooksFile returns the path of the user's Claude Code settings with hooks, whether the file
// exists or not.
func HooksFile(m Machine) string { return filepath.Join(m.folder("CLAUDE SETTINGS"), "settings.json") }

// WithHooks returns the text of a Claude Code settings file with mcpschedd's hooks added after
// the others. Earlier hooks of mcpschedd are removed. Empty hooks only remove.
func WithHooks(path string, text []byte, hooks map[string][]HookMatcher) ([]byte, error) {
	switch {
	case len(bytes.TrimSpace(text)) > 0:
	case len(hooks) == 0:
		return text, nil
	default:
		return marshal(map[string]any{"hooks": hooks}, "  ")
	}
	doc, err := parse(path, text)
	if err != nil {
		return nil, err
	}
	out, err := doc.edited(func(d *document) error {
		defer d.pack()
		if err := d.dropHooks(); err != nil {
			return err
		}
		return d.addHooks(hooks)
	})
	if err == nil && bytes.Equal(minimal(text), minimal(out)) {
		return text, nil // unchanged
	}
	return out, err
}

// minimal returns JSON without comments and white space.
func minimal(text []byte) []byte {
	out, _ := hujson.Minimize(text) // cannot fail: the text was parsed
	return out
}

// patch changes the document by a JSON patch (RFC 6902) and preserves comments and white space.
func (d *document) patch(op, path string, value any) error {
	text, err := marshal([]map[string]any{{"op": op, "path": path, "value": value}}, "")
	if err == nil {
		err = d.root.Patch(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", d.path, path, err)
	}
	return nil
}

func (d *document) addHooks(hooks map[string][]HookMatcher) error {
	if _, ok := d.top().child("hooks"); !ok && len(hooks) > 0 {
		if err := d.patch("add", "/hooks", struct{}{}); err != nil {
			return err
		}
	}
	for _, event := range slices.Sorted(maps.Keys(hooks)) {
		at := "/hooks/" + event
		if there, ok := d.top().child("hooks", event); !ok {
			if err := d.patch("add", at, []any{}); err != nil {
				return err
			}
		} else if _, ok := there.value().([]node); !ok {
			return fmt.Errorf("%s: %s: want a list, have %s", there.where(), at, there.kind())
		}
		for _, one := range hooks[event] {
			if err := d.patch("add", at+"/-", one); err != nil {
				return err
			}
		}
	}
	return nil
}

var ownHook = regexp.MustCompile(`\bmcpschedd(-small)?' 'hook'`)

// ownHooks returns mcpschedd's hooks for an event.
func ownHooks(event member) (own []node) {
	for _, n := range event.elements() {
		if slices.ContainsFunc(n.elements("hooks"), func(h node) bool {
			command, _ := h.child("command")
			s, _ := command.value().(string)
			return ownHook.MatchString(s)
		}) {
			own = append(own, n)
		}
	}
	return own
}

func (d *document) hooks() (events []member, ok bool) {
	hooks, _ := d.top().child("hooks")
	return hooks.members()
}

// dropHooks removes mcpschedd's hooks, and the objects and lists that contain nothing else.
func (d *document) dropHooks() error {
	events, _ := d.hooks()
	dropped, left := false, len(events)
	for _, event := range events {
		own := ownHooks(event)
		if len(own) == 0 {
			continue
		}
		dropped = true
		if len(own) == len(event.elements()) {
			own, left = []node{event.node}, left-1
		}
		for _, n := range slices.Backward(own) {
			if err := d.patch("remove", n.pointer, nil); err != nil {
				return err
			}
		}
	}
	if dropped && left == 0 {
		return d.patch("remove", "/hooks", nil)
	}
	return nil
}

// marshal returns JSON without HTML escapes.
func marshal(value any, indent string) ([]byte, error) {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", indent)
	err := out.Encode(value)
	return b.Bytes(), err
}
