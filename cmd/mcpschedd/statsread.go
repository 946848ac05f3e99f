package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mcpschedd/internal/daemon"
	"mcpschedd/internal/front"
	"mcpschedd/internal/record"
	"mcpschedd/internal/state"
)

// eventsOff is the note if events are disabled.
const eventsOff = `[telemetry] events is "off", so savings are not recorded. Each process has its figures in the resource mcpschedd://stats; mcpschedd stats --http URL shows those of a process that serves HTTP.`

// viewOfToday returns a function that reads today's events and the state of this user's processes.
// once says that it is called once; it then also tries whether a running process can write.
func viewOfToday(configFile string, once bool) (func() (record.View, error), error) {
	c, dir, mistakes, err := loadServed(configFile, stateToRead)
	if err != nil {
		return nil, err
	}
	path := dir.Path(eventsFolder)
	follower := record.NewFollower(path)
	return func() (record.View, error) {
		v, err := follower.View()
		if err != nil {
			return v, fmt.Errorf("%w: cannot read the event logs and the state of running processes", err)
		}
		note := func(text string) { v.Notes = append(v.Notes, record.Warning{Message: text}) }
		place, runs := daemonOf(c)
		trouble := ""
		if runs {
			trouble = daemonTrouble(place, c.Path, v.Stats.Running)
		}
		if trouble == "" && once && (runs || len(v.Stats.Running) > 0) {
			trouble = diskTrouble(dir, v.Stats.Running)
		}
		if trouble != "" {
			note(trouble)
		}
		for _, text := range otherServices(v.Stats.Running) {
			note(text)
		}
		if c.Telemetry.Events == "off" {
			note(eventsOff)
		}
		if mistakes != nil && !slices.ContainsFunc(v.Stats.Running, func(p record.Status) bool { return p.Config == c.Path }) { // else the process reports them
			note("The configuration has mistakes: " + mistakes.Problems[0].String())
		}
		if len(v.Stats.Running) > 0 || trouble != "" {
			return v, nil
		}
		if runs {
			note("The daemon is running, without clients.")
		} else {
			note("mcpschedd is not running.")
		}
		if v.Stats.Processes == 0 {
			next := "To begin: " + toBegin + "."
			if len(c.Upstreams) > 0 {
				next = "A client starts mcpschedd when it starts itself; mcpschedd connect must be among its servers."
			}
			note("To see other days: " + pasted([]string{"mcpschedd", "stats", path}) + ". " + next)
		}
		return v, nil
	}, nil
}

// daemonTrouble returns what is wrong with a running daemon of a configuration: it does not answer, or it is of
// another version. It returns "" otherwise.
func daemonTrouble(place daemon.Place, config string, running []record.Status) string {
	i := slices.IndexFunc(running, func(p record.Status) bool { return p.Transport == record.Daemon && p.Config == config })
	switch {
	case hangs(place.Ping()):
		text := "The " + daemonHangs + ", and what follows may be old."
		if i >= 0 {
			return text + fmt.Sprintf(" kill -CONT %d continues it, kill -KILL %[1]d ends it.", running[i].PID)
		}
		return text + " End the process mcpschedd daemon, or continue it by kill -CONT."
	case i >= 0 && running[i].Program != version():
		return fmt.Sprintf("The daemon is mcpschedd %s, and this program %s: mcpschedd daemon --stop ends it, and its clients start the installed one.", running[i].Program, version())
	}
	return ""
}

// otherServices names the processes that serve HTTP and are of another version.
func otherServices(running []record.Status) (all []string) {
	for _, p := range running {
		if p.Transport == record.HTTP && p.Program != version() {
			all = append(all, fmt.Sprintf("Process %d, which serves HTTP, is mcpschedd %s, and this program %s: a restart of its service starts the installed one.", p.PID, p.Program, version()))
		}
	}
	return all
}

// diskTrouble tries to write to the state directory, and returns why running processes cannot, such as that the
// disk is full; "" if they can. Without a status of any, each error counts; else it may be this program's alone.
func diskTrouble(dir state.Dir, running []record.Status) string {
	probe, err := os.CreateTemp(dir.Path(""), "probe.*.tmp")
	if err == nil {
		_, err = probe.Write([]byte{0})
		probe.Close()
		os.Remove(probe.Name())
	}
	if err == nil || len(running) > 0 && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return ""
	}
	return fmt.Sprintf("Nothing can be recorded now, and what follows may be old: %v.", err)
}

// httpClient sends requests to a proxy that serves HTTP.
type httpClient struct {
	base   string // URL of the proxy
	token  string // "" sends none
	client http.Client
}

// httpClientAt returns the client of the proxy at the address of --http, which may also be a URL that
// clients are configured with, such as http://127.0.0.1:7777/mcp.
func httpClientAt(address, configFile string) (*httpClient, error) {
	full := address
	if !strings.Contains(address, "://") {
		full = "http://" + address
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, usage("--http: want a URL such as http://127.0.0.1:7777, have %q", address)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() { // as in serve --http 0.0.0.0:7777
		u.Host = strings.TrimSuffix("localhost:"+u.Port(), ":")
	}
	path, _, _ := strings.Cut(strings.TrimSuffix(u.Path, "/")+"/", "/mcp/") // also /mcp/NAME
	path = strings.TrimSuffix(path, "/")
	for _, page := range []string{"/stats", "/sse", "/dashboard"} {
		path = strings.TrimSuffix(path, page)
	}
	d := &httpClient{base: u.Scheme + "://" + u.Host + path, token: os.Getenv("MCPSCHEDD_TOKEN")}
	d.client.Timeout = 10 * time.Second
	d.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if d.token != "" || !front.Loopback(u.Hostname()) { // this machine's token is sent only to this machine
		return d, nil
	}
	_, dir, _, err := loadServed(configFile, stateToRead)
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

// view requests the figures.
func (d *httpClient) view(ctx context.Context) (v record.View, err error) {
	v.Period = "since " + d.base + " started"
	if err := d.request(ctx, http.MethodGet, "/stats", &v.Stats); err != nil {
		return v, err
	}
	if have := v.Stats.SchemaVersion; have != statsSchema {
		return v, fmt.Errorf("%s: want figures of version %d, have %d", d.base, statsSchema, have)
	}
	if names := v.Stats.Replicas; len(names) > 0 {
		v.Notes = []record.Warning{{Message: fmt.Sprintf("Figures of %s: %s.", record.Counted(len(names), "replica"), strings.Join(names, ", "))}}
	}
	return v, nil
}

// request sends a request and decodes the JSON response into v.
func (d *httpClient) request(ctx context.Context, method, path string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, nil)
	if err != nil {
		return err
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	answer, err := d.client.Do(req)
	const notThere = "is mcpschedd serve --http running there?"
	if err != nil {
		hint := notThere
		if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
			hint = "on Linux, SSL_CERT_FILE names a file with the certificate of your own authority; elsewhere, add it to those of the system"
		} else if errors.Is(err, http.ErrSchemeMismatch) {
			hint = "use http://: serve itself has no TLS"
		}
		if cause, ok := errors.AsType[syscall.Errno](err); ok { // without what the program did
			err = cause
		} else if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err
		}
		return hinted{fmt.Errorf("%s does not answer: %w", d.base, err), hint}
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		hint := "set $MCPSCHEDD_TOKEN to the content of the file that it logs at start-up (token=…)"
		if d.token != "" && os.Getenv("MCPSCHEDD_TOKEN") == "" {
			hint = "it has another token than the file in the state directory: if that was changed, restart it, as it reads the file only when it starts; else " + hint
		}
		return hinted{fmt.Errorf("%s: %s", d.base, answer.Status), hint}
	case http.StatusNotFound:
		return hinted{fmt.Errorf("%s: %s", d.base, answer.Status), notThere}
	default:
		return fmt.Errorf("%s: %s", d.base, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, 64<<20)).Decode(v); err != nil {
		return fmt.Errorf("%s: not mcpschedd's response: %w", d.base, err)
	}
	return nil
}
