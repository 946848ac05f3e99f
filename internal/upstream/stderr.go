package upstream

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

const (
	tailLines = 50
	tailWidth = 1 << 10 // bytes of a line that are kept
)

// tail keeps the last lines of a stream, whatever its length. The zero tail is
// empty.
type tail struct {
	mu    sync.Mutex
	lines [tailLines][]byte // a ring; their memory is used again
	next  int               // the oldest in lines
	part  []byte            // the line that has not ended yet
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
		t.part = append(t.part, line[:min(len(line), tailWidth-len(t.part))]...)
		if whole && len(bytes.TrimSpace(t.part)) > 0 {
			t.part, t.lines[t.next] = t.lines[t.next], t.part
			t.next = (t.next + 1) % tailLines
		}
		if whole {
			t.part = t.part[:0]
		}
		b = rest
	}
}

// list returns the lines, the oldest first, blank ones left out. What stands
// after the last line end counts: a crash may not get further.
func (t *tail) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for i := range tailLines {
		list = appendLine(list, t.lines[(t.next+i)%tailLines])
	}
	list = appendLine(list, t.part)
	return list[max(0, len(list)-tailLines):]
}

func appendLine(list []string, line []byte) []string {
	if line = bytes.TrimRight(line, " \t\r"); len(line) == 0 {
		return list
	}
	return append(list, strings.ToValidUTF8(string(line), "\uFFFD"))
}
