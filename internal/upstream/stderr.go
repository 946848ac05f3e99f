package upstream

import (
	"bytes"
	"io"
	"strings"
	"sync"

	"mcpschedd/internal/secret"
)

const (
	tailLines = 50
	tailWidth = 1 << 10 // bytes of a line that are shown; one more is kept to know that there was more
)

// tail keeps the last lines of a stream, whatever its length. The zero tail is
// empty. Lines are kept as they came, and secrets are masked only when the lines are
// asked for, which is rare.
type tail struct {
	mu    sync.Mutex
	lines [tailLines][]byte // a ring; their memory is used again
	next  int               // the oldest in lines
	part  []byte            // the line that has not ended yet
	armor secret.Armor
}

// readFrom reads r to its end.
func (t *tail) readFrom(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		t.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		t.part = append(t.part, line[:min(len(line), tailWidth+1-len(t.part))]...)
		if whole && len(bytes.TrimSpace(t.part)) > 0 && !t.armor.Body(t.part) {
			t.part, t.lines[t.next] = t.lines[t.next], t.part
			t.next = (t.next + 1) % tailLines
		}
		if whole {
			t.part = t.part[:0]
		}
		b = rest
	}
}

// list returns the lines without secrets, the oldest first, blank ones left out. The
// last line need not have an end: a crash may cut it short.
func (t *tail) list(mask *secret.Masker) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for i := range tailLines {
		list = appendLine(list, t.lines[(t.next+i)%tailLines], true, mask)
	}
	if armor := t.armor; !armor.Body(t.part) {
		list = appendLine(list, t.part, false, mask)
	}
	return list[max(0, len(list)-tailLines):]
}

// appendLine adds a line without secrets. If the line has no end, a beginning of a
// secret is masked too. If it was cut off, its last word is dropped as well, because
// half a secret may not look like one.
func appendLine(list []string, line []byte, ended bool, mask *secret.Masker) []string {
	var text string
	switch kept := bytes.TrimRight(line, " \t\r"); {
	case len(kept) == 0:
		return list
	case len(line) > tailWidth:
		kept = line[:tailWidth]
		kept = bytes.TrimRight(kept[:bytes.LastIndexAny(kept, " \t\"'\\")+1], `\`)
		text = mask.Unfinished(string(kept)) + "…"
	case ended:
		text = mask.Text(string(kept))
	default:
		text = mask.Unfinished(string(kept))
	}
	return append(list, strings.ToValidUTF8(text, "\uFFFD"))
}
