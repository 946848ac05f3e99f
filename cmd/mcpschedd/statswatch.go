package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/telemetry"
)

// watchEvery is how often --watch looks.
const watchEvery = time.Second

// watchRunning follows the running processes.
func (f *statsFlags) watchRunning(ctx context.Context, stdout, stderr io.Writer) error {
	d, err := f.folder()
	if err != nil {
		return err
	}
	r := newReading(f, stdout, stderr)
	if _, _, ok := terminal(stdout); ok {
		r.stderr = nil // it would stand in the picture
	}
	tail := events.NewTail(d.path)
	return f.keepLooking(ctx, func(context.Context) (*seen, error) {
		if err := tail.Poll(r.add, r.bad); err != nil {
			return nil, err
		}
		files, ended, err := d.files()
		if err != nil {
			return nil, err
		}
		s := &seen{stats: r.tally.Stats(time.Now())}
		if len(files) == 0 || !ended.IsZero() {
			s.of = []string{"no mcpschedd is running"}
		} else {
			s.of = d.of(files, r.begun)
		}
		if r.problems > 0 {
			s.of = append(s.of, r.trouble()+"; the last: "+r.problem)
		}
		return s, nil
	}, stdout, stderr)
}

// keepLooking prints what look sees: on a terminal each time, in place of what was
// there; elsewhere when the figures are others. That nothing was seen at first is an
// error; later on it is said, and looked again.
func (f *statsFlags) keepLooking(ctx context.Context, look func(context.Context) (*seen, error), stdout, stderr io.Writer) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	p := picture{flags: f, w: stdout}
	gone := ""
	for began := false; ; began = true {
		s, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !began:
			return err
		case err != nil:
			if text := err.Error(); text != gone {
				gone = text
				fmt.Fprintf(stderr, "mcpschedd: warning: %s\n", plain(text))
			}
		default:
			gone = ""
			if err := p.show(s); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// picture is what is on the terminal, or was printed last.
type picture struct {
	flags *statsFlags
	w     io.Writer
	last  []byte // the figures
}

// show prints what is seen now.
func (p *picture) show(s *seen) error {
	width, height, live := terminal(p.w)
	live = live && !p.flags.json
	now := figures(s)
	if !live && bytes.Equal(now, p.last) {
		return nil
	}
	var text bytes.Buffer
	if !p.flags.json && !live && p.last != nil {
		text.WriteString("\n")
	}
	p.last = now
	if err := p.flags.print(&text, s); err != nil {
		return err
	}
	out := text.Bytes()
	if live {
		out = frame(text.String(), width, height)
	}
	_, err := p.w.Write(out)
	return err
}

// figures are what must be others for something to have changed: neither the time nor
// what hosts allow at the moment.
func figures(s *seen) []byte {
	f := s.stats
	f.UptimeS, f.Hosts = 0, nil
	text, _ := json.Marshal(struct {
		Of    []string
		Stats telemetry.Stats
	}{s.of, f})
	return text
}

// frame is a text as it fills a terminal of that size, whatever stood there before:
// from the upper left corner, each line cut off where the terminal ends.
func frame(text string, width, height int) []byte {
	var out bytes.Buffer
	out.WriteString("\x1b[H")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range lines[:min(len(lines), max(height-1, 1))] {
		if r := []rune(line); len(r) > width {
			line = string(r[:width])
		}
		out.WriteString(line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	return out.Bytes()
}

// terminal says whether w is one, and of which size.
func terminal(w io.Writer) (width, height int, ok bool) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, 0, false
	}
	return terminalSize(f)
}
