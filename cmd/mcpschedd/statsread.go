package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
)

// reading tallies events while reading them.
type reading struct {
	tally *record.Tally
	since time.Time // earlier events are not counted
	tail  *record.Tail

	events      int64
	first, last time.Time
	killed      []string // notes on processes that ended without an end event

	reporter
}

// newReading returns an empty reading. With io.Discard as stderr, problems are only counted.
func newReading(since time.Time, stderr io.Writer) *reading {
	return &reading{tally: record.NewTally(), since: since, reporter: reporter{stderr: stderr}}
}

// add counts an event.
func (r *reading) add(e *record.Event) {
	if e.At.Before(r.since) && e.Kind != record.Begin && e.Kind != record.Session && e.Kind != record.End {
		return
	}
	if e.Killed {
		note := fmt.Sprintf("Process %s did not end properly (killed?); its last event is from %s.", e.Process, formatTime(e.At))
		r.killed = append(r.killed, note)
		r.tally.Problem(note)
	} else {
		r.events++
	}
	if !e.At.IsZero() && (r.first.IsZero() || e.At.Before(r.first)) {
		r.first = e.At
	}
	if e.At.After(r.last) {
		r.last = e.At
	}
	r.tally.Add(e)
}

// formatTime formats a time for people.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// bad reports an unreadable line.
func (r *reading) bad(p record.Problem) {
	r.problem(p)
	r.tally.Problem(p.Error())
}

// files reads event logs. It is an error if they have no events.
func (r *reading) files(ctx context.Context, names []string) (*snapshot, error) {
	err := record.Read(ctx, names, r.add, r.bad)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case r.events == 0: // the reasons were printed
		return nil, fmt.Errorf("%s: no events", strings.Join(names, ", "))
	case err != nil:
		return nil, err
	}
	return r.snapshot(r.last, fmt.Sprintf("in %d events, %s to %s", r.events, formatTime(r.first), formatTime(r.last))), nil
}

// mostKilled is the number of killed processes that are named.
const mostKilled = 3

// snapshot returns the data to print now.
func (r *reading) snapshot(now time.Time, period string) *snapshot {
	notes := append([]string(nil), r.killed[max(0, len(r.killed)-mostKilled):]...)
	if r.problems > 0 {
		notes = append(notes, fmt.Sprintf("Lines of the event log that could not be read: %d.", r.problems))
	}
	return &snapshot{period: period, stats: r.tally.Stats(now), notes: notes}
}

// eventsDir is where this user's processes write their events and states.
type eventsDir struct {
	path   string
	off    bool // events are disabled
	config *config.Config
}

func eventsDirOf(configFile string) (eventsDir, error) {
	c, dir, err := loadWithState(configFile)
	if err != nil {
		return eventsDir{}, err
	}
	return eventsDir{path: dir.Path(eventsFolder), off: c.Telemetry.Events == "off", config: c}, nil
}

// eventsOff is the note if events are disabled.
const eventsOff = `[telemetry] events is "off", so savings are not recorded. Each process has its figures in the resource mcpschedd://stats; mcpschedd stats --http URL shows those of a process that serves HTTP.`

// follow reads today's events since the last call, and the states of the processes. On a new day
// it begins anew.
func (r *reading) follow(d eventsDir) (*snapshot, error) {
	if day := today(); r.tail == nil || !r.since.Equal(day) {
		*r = *newReading(day, r.stderr)
		r.tail = record.NewTail(d.path, day)
		if d.off {
			r.tally.Problem(eventsOff)
		}
	}
	if err := r.tail.Poll(r.add, r.bad); err != nil {
		return nil, fmt.Errorf("%w: cannot read the event logs and the state of running processes", err)
	}
	s := r.snapshot(time.Now(), "today")
	s.stats.SetRunning(record.ReadStatuses(d.path))
	if d.off {
		s.notes = append(s.notes, eventsOff)
	}
	if len(s.stats.Running) > 0 {
		return s, nil
	}
	if _, runs := daemonOf(d.config); runs {
		s.notes = append(s.notes, "The daemon is running, without clients.")
	} else {
		s.notes = append(s.notes, "mcpschedd is not running.")
	}
	if r.events == 0 {
		next := "To begin: " + toBegin + "."
		if len(d.config.Upstreams) > 0 {
			next = "A client starts mcpschedd when it starts itself; mcpschedd connect must be among its servers."
		}
		s.notes = append(s.notes, "To see other days: mcpschedd stats "+d.path+". "+next)
	}
	return s, nil
}

// httpProxy is a proxy that serves HTTP.
type httpProxy struct {
	base   string // URL
	token  string // "" sends none
	client http.Client
}

// httpProxyAt returns the proxy at the address of --http, which may also be a URL that clients are
// configured with, such as http://127.0.0.1:7777/mcp.
func httpProxyAt(address, configFile string) (*httpProxy, error) {
	full := address
	if !strings.Contains(address, "://") {
		full = "http://" + address
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, usage("--http: want a URL such as http://127.0.0.1:7777, have %q", address)
	}
	path := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/stats"), "/mcp")
	d := &httpProxy{base: u.Scheme + "://" + u.Host + path, token: os.Getenv("MCPSCHEDD_TOKEN")}
	d.client.Timeout = 10 * time.Second
	d.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if d.token != "" || !front.Loopback(u.Hostname()) { // this machine's token is sent only to this machine
		return d, nil
	}
	_, dir, err := loadWithState(configFile)
	if err != nil {
		return nil, err
	}
	data, err := dir.Read(tokenFile)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	d.token = strings.TrimSpace(string(data))
	return d, err
}

// statsSchema is the version of the figures that this program reads.
const statsSchema = 1

// read requests the figures.
func (d *httpProxy) read(ctx context.Context) (*snapshot, error) {
	s := &snapshot{period: "since " + d.base + " started"}
	if err := d.request(ctx, http.MethodGet, "/stats", &s.stats); err != nil {
		return nil, err
	}
	if v := s.stats.SchemaVersion; v != statsSchema {
		return nil, fmt.Errorf("%s: want figures of version %d, have %d", d.base, statsSchema, v)
	}
	if names := s.stats.Replicas; len(names) > 0 {
		s.notes = append(s.notes, fmt.Sprintf("Figures of %d replicas: %s.", len(names), strings.Join(names, ", ")))
	}
	return s, nil
}

// request sends a request and decodes the JSON response into v.
func (d *httpProxy) request(ctx context.Context, method, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, nil)
	if err != nil {
		return err
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	answer, err := d.client.Do(req)
	if err != nil {
		return hinted{err, "is mcpschedd serve --http running there?"}
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return hinted{fmt.Errorf("%s: %s", d.base, answer.Status), "set $MCPSCHEDD_TOKEN to the content of the file that it logs at start-up (token=…)"}
	default:
		return fmt.Errorf("%s: %s", d.base, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 64<<20)).Decode(v); err != nil {
		return fmt.Errorf("%s: not mcpschedd's response: %w", d.base, err)
	}
	return nil
}
