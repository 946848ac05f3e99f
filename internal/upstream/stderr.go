package upstream

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/secret"
)

const (
	tailLines = 50
	tailWidth = 1 << 10 // bytes shown of a line; one more is stored
)

// tail is a writer that keeps the last lines, with secrets masked. Its zero value is empty.
type tail struct {
	mask *secret.Masker
	to   io.Writer // gets every finished line; may be nil
	pid  int       // of the process, for to

	mu    sync.Mutex
	lines []string // oldest first
	part  []byte   // the unfinished line
	armor secret.Armor
}

func (t *tail) Write(b []byte) (int, error) {
	for _, line := range t.add(b) {
		if t.to != nil {
			_, _ = fmt.Fprintf(t.to, "%s [%d] %s\n", time.Now().UTC().Format(time.RFC3339), t.pid, line)
		}
	}
	return len(b), nil
}

// add adds what was written, and returns the lines that it finished.
func (t *tail) add(b []byte) (finished []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range bytes.Lines(b) {
		text, whole := bytes.CutSuffix(line, []byte("\n"))
		t.part = append(t.part, text[:min(len(text), tailWidth+1-len(t.part))]...)
		if !whole {
			break
		}
		if len(bytes.TrimSpace(t.part)) > 0 && !t.armor.Body(t.part) {
			finished = append(finished, masked(t.part, true, t.mask))
		}
		t.part = t.part[:0]
	}
	t.lines = lastLines(append(t.lines, finished...))
	return finished
}

// list returns the lines, oldest first. The last one may be unfinished.
func (t *tail) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Clone(t.lines)
	if armor := t.armor; !armor.Body(t.part) && len(bytes.TrimSpace(t.part)) > 0 {
		list = append(list, masked(t.part, false, t.mask))
	}
	return lastLines(list)
}

func lastLines(list []string) []string { return list[max(0, len(list)-tailLines):] }

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
