package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"mcpschedd/internal/front"
)

// Limits of a request to a proxy that serves HTTP, and the supported schema version.
const (
	askTimeout  = 10 * time.Second
	answerBytes = 64 << 20
	statsSchema = 1
)

// httpProxy is a proxy that serves HTTP.
type httpProxy struct {
	url    string // of the requested resource; at first the figures
	token  string // "" sends none
	client http.Client
}

// httpProxyAt returns the proxy at the address of --http.
func httpProxyAt(address, configFile string) (*httpProxy, error) {
	u, err := statsURL(address)
	if err != nil {
		return nil, usage("--http: want a URL such as http://127.0.0.1:7777, have %q", address)
	}
	d := &httpProxy{url: u.String(), token: os.Getenv("MCPSCHEDD_TOKEN")}
	d.client.Timeout = askTimeout
	d.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if d.token == "" && front.Loopback(u.Hostname()) { // this machine's token is sent only to this machine
		if d.token, err = keptToken(configFile); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// statsURL returns the URL of a proxy's figures. It also accepts the URL that clients are
// configured with, such as http://127.0.0.1:7777/mcp.
func statsURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errors.New("not an HTTP URL")
	}
	path := strings.TrimSuffix(u.Path, "/")
	path = strings.TrimSuffix(strings.TrimSuffix(path, "/stats"), "/mcp")
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path + "/stats"}, nil
}

// keptToken returns the token in the state directory; "" if there is none.
func keptToken(configFile string) (string, error) {
	_, dir, err := loadWithState(configFile)
	if err != nil {
		return "", err
	}
	data, err := dir.Read(tokenFile)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// read requests the figures.
func (d *httpProxy) read(ctx context.Context) (*snapshot, error) {
	s := &snapshot{period: "since " + strings.TrimSuffix(d.url, "/stats") + " started"}
	if err := d.request(ctx, http.MethodGet, &s.stats); err != nil {
		return nil, err
	}
	s.stats.Derive()
	if s.stats.SchemaVersion == 0 {
		return nil, d.foreign()
	}
	if v := s.stats.SchemaVersion; v != statsSchema {
		return nil, fmt.Errorf("%s: figures of version %d; this mcpschedd reads version %d", d.url, v, statsSchema)
	}
	if names := s.stats.Replicas; len(names) > 0 {
		s.notes = append(s.notes, fmt.Sprintf("Figures of %d replicas: %s.", len(names), strings.Join(names, ", ")))
	}
	return s, nil
}

// request sends a request and decodes the JSON response into v.
func (d *httpProxy) request(ctx context.Context, method string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, d.url, nil)
	if err != nil {
		return err
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	answer, err := d.client.Do(req)
	if err != nil {
		return d.unreachable(err)
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		what := "a token is required"
		if d.token != "" {
			what = "the token is not accepted"
		}
		return hinted{fmt.Errorf("%s: %s: %s", d.url, answer.Status, what), "set $MCPSCHEDD_TOKEN to the content of the file that it logs at start-up (token=…)"}
	case http.StatusNotFound:
		return fmt.Errorf("%s: %s: not mcpschedd, or an older version", d.url, answer.Status)
	default:
		return fmt.Errorf("%s: %s", d.url, answer.Status)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, answerBytes))
	if err != nil {
		return d.unreachable(err)
	}
	if json.Unmarshal(body, v) != nil {
		return d.foreign()
	}
	return nil
}

func (d *httpProxy) foreign() error {
	return fmt.Errorf("%s: not mcpschedd's figures; another server responds there", d.url)
}

// unreachable describes why there is no response.
func (d *httpProxy) unreachable(err error) error {
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return fmt.Errorf("%s: no response within %v", d.url, d.client.Timeout)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which is already in the message
	}
	return fmt.Errorf("%s: %w; is mcpschedd serve --http running there?", d.url, err)
}
