package upstream

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"mcpschedd/internal/secret"
)

const (
	tailLines = 50
	tailWidth = 1 << 10 // bytes shown of a line; one more is stored
)

// tail is a writer that keeps the last lines. Its zero value is empty. Secrets are masked when
// lines are read, which is rare.
type tail struct {
	mu     sync.Mutex
	lines  [][]byte // oldest first
	part   []byte   // the unfinished line
	armor  secret.Armor
	onLine func(line []byte) // called for every finished line; may be nil
}

func (t *tail) Write(b []byte) (int, error) {
	var ended [][]byte
	defer func() {
		for _, line := range ended {
			t.onLine(line)
		}
	}()
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(b) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		t.part = append(t.part, text[:min(len(text), tailWidth+1-len(t.part))]...)
		if !whole {
			break
		}
		if len(bytes.TrimSpace(t.part)) > 0 && !t.armor.Body(t.part) {
			if len(t.lines) == tailLines {
				t.lines = slices.Delete(t.lines, 0, 1)
			}
			t.lines = append(t.lines, bytes.Clone(t.part))
			if t.onLine != nil {
				ended = append(ended, t.lines[len(t.lines)-1])
			}
		}
		t.part = t.part[:0]
	}
	return len(b), nil
}

// list returns the lines with secrets masked, oldest first. The last line may be unfinished.
func (t *tail) list(mask *secret.Masker) (list []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		list = append(list, masked(line, true, mask))
	}
	if armor := t.armor; !armor.Body(t.part) && len(bytes.TrimSpace(t.part)) > 0 {
		list = append(list, masked(t.part, false, mask))
	}
	return list[max(0, len(list)-tailLines):]
}

// masked returns a line with secrets masked. In an unfinished line the beginning of a secret is
// masked too. In a line that is cut off the last word is dropped, because half a secret may not
// look like one.
func masked(line []byte, ended bool, mask *secret.Masker) (text string) {
	switch kept := bytes.TrimRight(line, " \t\r"); {
	case len(line) > tailWidth:
		kept = line[:tailWidth]
		kept = bytes.TrimRight(kept[:bytes.LastIndexAny(kept, " \t\"'\\")+1], `\`)
		text = mask.Unfinished(string(kept)) + "…"
	case ended:
		text = mask.Text(string(kept))
	default:
		text = mask.Unfinished(string(kept))
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
