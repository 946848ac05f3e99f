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
	tailWidth = 1 << 10 // bytes of a line that are shown; one more is kept to know that there was more
)

// tail keeps the last lines that are written to it. The zero tail is empty. Lines are
// kept as they came, and secrets are masked only when the lines are asked for, which is
// rare.
type tail struct {
	mu    sync.Mutex
	lines [][]byte // the oldest first
	part  []byte   // the line that has not ended yet
	armor secret.Armor
	each  func(line []byte) // told of every line once it has ended; nil: nothing is
}

func (t *tail) Write(b []byte) (int, error) {
	var ended [][]byte
	defer func() {
		for _, line := range ended {
			t.each(line)
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
			if t.each != nil {
				ended = append(ended, t.lines[len(t.lines)-1])
			}
		}
		t.part = t.part[:0]
	}
	return len(b), nil
}

// list returns the lines without secrets, the oldest first. The last line need not
// have an end: a crash may cut it short.
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

// masked is a line without secrets. If the line has no end, a beginning of a secret is
// masked too. If it was cut off, its last word is dropped as well, because half a secret
// may not look like one.
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
