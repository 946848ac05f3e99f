package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"mcpschedd/internal/record"
)

// watchEvery is how often --watch looks.
const watchEvery = time.Second

// watchRunning follows the running processes.
func (f *statsFlags) watchRunning(ctx context.Context, stdout, stderr io.Writer) error {
	d, err := f.folder()
	if err != nil {
		return err
	}
	r := newReading(f, stderr)
	if _, _, ok := terminal(stdout); ok {
		r.stderr = nil // it would stand in the picture
	}
	tail := record.NewTail(d.path)
	return f.keepLooking(ctx, func(context.Context) (*seen, error) {
		all, err := r.follow(d, tail)
		if err != nil {
			return nil, err
		}
		s := &seen{of: d.of(all, r.lives), stats: r.tally.Stats(time.Now())}
		if len(s.of) == 0 {
			s.of = append(s.of, cmp.Or(d.blind(), "no mcpschedd is running"))
		}
		if text := unended(r.killed); text != "" {
			s.of = append(s.of, text)
		}
		if r.problems > 0 {
			s.of = append(s.of, r.trouble()+"; the last: "+r.problem)
		}
		return s, nil
	}, stdout, stderr)
}

// follow reads what was written since the last time, and returns the parts that there
// are.
func (r *reading) follow(d folder, tail *record.Tail) ([]record.File, error) {
	all, runs, err := d.list()
	if err != nil {
		return nil, err
	}
	if err := tail.Poll(r.add, r.bad); err != nil {
		return nil, err
	}
	r.over(runs)
	return all, nil
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
	if live {
		_, err := p.w.Write(frame(s, width, height))
		return err
	}
	if err := p.flags.print(&text, s); err != nil {
		return err
	}
	_, err := p.w.Write(text.Bytes())
	return err
}

// figures are what must be others for something to have changed: neither the time nor
// what hosts allow at the moment.
func figures(s *seen) []byte {
	f := s.stats
	f.UptimeS, f.Hosts = 0, nil
	text, _ := json.Marshal(struct {
		Of    []string
		Stats record.Stats
	}{s.of, f})
	return text
}

// frame is what is seen as it fills a terminal of that size, whatever stood there
// before, from the upper left corner. What it is of gets a third of the lines; the last
// line stays empty, for the cursor.
func frame(s *seen, width, height int) []byte {
	height = max(height-1, 1)
	head := strings.Split(strings.TrimSuffix(wrapped(s.of, width), "\n"), "\n")
	if room := max(height/3, 1); len(head) > room {
		head = head[:0]
		for _, line := range s.of[:min(len(s.of), room)] {
			head = append(head, record.Wrap(plain(line), width, 0)[0])
		}
	}
	if height > 3 {
		head = append(head, "")
	}
	text := strings.TrimSuffix(s.stats.Fit(width, max(height-len(head), 1)), "\n")
	var out bytes.Buffer
	out.WriteString("\x1b[H")
	all := append(head, strings.Split(text, "\n")...)
	for _, line := range all[:min(len(all), height)] {
		out.WriteString(record.Wrap(line, width, 0)[0] + "\x1b[K\n")
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
