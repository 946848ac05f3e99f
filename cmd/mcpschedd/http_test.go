package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/state"
)

// proxyOverHTTP is a proxy that serves HTTP in this process.
type proxyOverHTTP struct {
	t     *testing.T
	addr  string // 127.0.0.1:PORT
	token string
	start string // line of its log with the address
}

// serveOver runs `mcpschedd serve --http ADDR` with a configuration, on a free port of host.
func serveOver(t *testing.T, host, configuration string, args ...string) *proxyOverHTTP {
	t.Helper()
	home := homely(t)
	file := filepath.Join(home, "conf.toml")
	writeFile(t, file, configuration)
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := execute(ctx, append([]string{"serve", "--config", file, "--http", host + ":0"}, args...), io.Discard, w)
		w.CloseWithError(errors.Join(io.EOF, err))
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v, want no error", err)
		}
	})
	p := &proxyOverHTTP{t: t}
	log := bufio.NewReader(r)
	for p.start == "" {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "serving HTTP") {
			p.start = line
		}
	}
	go io.Copy(io.Discard, log)
	_, port, err := net.SplitHostPort(regexp.MustCompile(`url=http://(\S*)/mcp `).FindStringSubmatch(p.start)[1])
	if err != nil {
		t.Fatal(err)
	}
	p.addr = "127.0.0.1:" + port
	if data, err := os.ReadFile(filepath.Join(home, "mcpschedd", tokenFile)); err == nil {
		p.token = strings.TrimSpace(string(data))
	}
	return p
}

// ask makes a request. headers are names and values in turn.
func (p *proxyOverHTTP) ask(method, path string, header ...string) *http.Response {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.addr+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Host = r.Header.Get("Host") // "" means that of the address
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// A listener on all addresses accepts requests to any address of the machine and to the configured
// names, and no others.
func TestServeOnEveryAddress(t *testing.T) {
	p := serveOver(t, "0.0.0.0", "[http]\nallowed_hosts = [\"box.example\"]\n")
	if !strings.Contains(p.start, "url=http://localhost:") {
		t.Errorf("got %s, want an address to which a client can connect", p.start)
	}
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "box.example": 200, "BOX.example:80": 200, "192.0.2.7": 200, "[2001:db8::1]:80": 200,
		"evil.example": 403, "box.example.evil.example": 403, "192.0.2.7.evil.example": 403,
	} {
		if got := p.ask("GET", "/stats", "Host", host, "Authorization", "Bearer "+p.token).StatusCode; got != want {
			t.Errorf("%q: got %d, want %d", host, got, want)
		}
		if got := p.ask("GET", "/stats", "Host", host).StatusCode; got == 200 {
			t.Errorf("%q: got 200 without the token", host)
		}
	}
}

// If no token is required, requests from pages of another local port are refused, and those from
// the proxy's own pages are not.
func TestServeWithoutTokenRefusesPages(t *testing.T) {
	p := serveOver(t, "127.0.0.1", "[http]\nallowed_origins = [\"http://app.example\"]\n", "--auth", "none")
	for origin, want := range map[string]int{
		"http://" + p.addr: 200, "http://app.example": 200,
		"http://localhost:5173": 403, "http://127.0.0.1:5173": 403, "http://evil.example": 403, "null": 403,
	} {
		for _, path := range []string{"/stats", "/dashboard", "/dashboard/view.json"} {
			if got := p.ask("GET", path, "Origin", origin).StatusCode; got != want {
				t.Errorf("%s of %s: got %d, want %d", path, origin, got, want)
			}
		}
	}
}

// Only --auth none turns the token off: the configuration does not, nor does a mistake in it.
func TestOnlyTheFlagTurnsTheTokenOff(t *testing.T) {
	none := "[http]\nauth = \"none\"\n"
	for _, text := range []string{
		none, "http.auth = \"\"\n", "http.auth = \"tokn\"\n", "http.auth = \"Token\"\n", "http.auth = 3\n", "http = 3\n", "[http\n",
		none + "max_sessions = -4\n", none + "[dedup]\nsettle = \"x\"\n",
	} {
		t.Run(text, func(t *testing.T) {
			p := serveOver(t, "127.0.0.1", text)
			if got := p.ask("GET", "/stats").StatusCode; got != 401 {
				t.Errorf("without a token: got %d, want 401", got)
			}
			if got := p.ask("GET", "/stats", "Authorization", "Bearer "+p.token).StatusCode; got != 200 {
				t.Errorf("with the token: got %d, want 200", got)
			}
		})
	}
}

// A state directory that others can write, and a token that others can read, are warned of.
func TestStateOfOthersIsWarnedOf(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no such permissions")
	}
	for _, tt := range []struct {
		dir, token os.FileMode
		want       []string
	}{
		{0o700, 0o600, nil}, {0o755, 0o600, nil},
		{0o777, 0o600, []string{"chmod 700"}}, {0o700, 0o644, []string{"delete its file"}}, {0o770, 0o620, []string{"chmod 700", "delete its file"}},
	} {
		homely(t)
		path := filepath.Join(t.TempDir(), "state")
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(path, "c.toml")
		writeFile(t, file, "server.state_dir = "+quoted(path)+"\n")
		writeFile(t, filepath.Join(path, tokenFile), "0123456789abcdef\n")
		if err := cmp.Or(os.Chmod(filepath.Join(path, tokenFile), tt.token), os.Chmod(path, tt.dir)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		_, _, closeCommon, err := prepare(serveFlags{config: file, http: "127.0.0.1:0"}, &log)
		if err != nil {
			t.Fatal(err)
		}
		closeCommon()
		for _, warning := range []string{"chmod 700", "delete its file"} {
			if got, want := strings.Contains(log.String(), warning), slices.Contains(tt.want, warning); got != want {
				t.Errorf("%o and %o: got %q %v, want %v in %s", tt.dir, tt.token, warning, got, want, &log)
			}
		}
	}
}

// Old learned state is removed, but no client waits for that, since there may be many files.
func TestOldLearnedStateIsRemoved(t *testing.T) {
	for name, run := range map[string]func(context.Context) error{
		"serve":  func(ctx context.Context) error { return serve(ctx, serveFlags{http: "127.0.0.1:0"}, io.Discard) },
		"daemon": func(ctx context.Context) error { return runDaemon(ctx, "", io.Discard, io.Discard) },
	} {
		home := homely(t)
		old, long := filepath.Join(home, "mcpschedd", "learned", "old"), time.Now().Add(-unusedLearned-time.Hour)
		if err := os.MkdirAll(filepath.Dir(old), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, old, "")
		if err := os.Chtimes(old, long, long); err != nil {
			t.Fatal(err)
		}
		_, _, closeCommon, err := prepare(serveFlags{}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		closeCommon()
		if _, err := os.Stat(old); err != nil {
			t.Errorf("%s: before it serves: %v", name, err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		eventually(t, name+": removes the file", func() bool { _, err := os.Stat(old); return err != nil })
		end()
		if err := <-ended; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestSessionIdleZeroIsNever(t *testing.T) {
	c := config.Default()
	c.HTTP.SessionIdle = 0
	dir, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := proxyOptions(ownWorkplace(), c, dir, slog.New(slog.DiscardHandler)).HTTP.SessionIdle; got < 100*365*24*time.Hour {
		t.Errorf("got %v, want it to continue", got)
	}
}

func TestStatsOfAProxyOverHTTP(t *testing.T) {
	p := serveOver(t, "127.0.0.1", "")
	t.Setenv("MCPSCHEDD_TOKEN", p.token)
	var stdout, stderr bytes.Buffer
	if err := execute(t.Context(), []string{"stats", "--http", p.addr}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("\nprocess %d since %s", os.Getpid(), time.Now().Format("2006-"))
	if !strings.Contains(stdout.String(), want) || !strings.Contains(stdout.String(), ", http in ") {
		t.Errorf("got %s, want %s, http in a directory", &stdout, want)
	}
}

// The dashboard of a proxy over HTTP is opened with a code, which the holder of the token can
// request. The token is not in any output, log or response.
func TestDashboardOfAProxyOverHTTP(t *testing.T) {
	p := serveOver(t, "127.0.0.1", "")
	said := []string{p.start}
	invite := func() string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if err := execute(t.Context(), []string{"dashboard", "--http", "http://" + p.addr + "/mcp"}, &stdout, &stderr); err != nil {
			t.Fatal(err)
		}
		said = append(said, stdout.String(), stderr.String())
		address, ok := strings.CutPrefix(strings.TrimSpace(stdout.String()), "http://"+p.addr)
		if !ok || !strings.HasPrefix(address, "/dashboard?code=") {
			t.Fatalf("got %s, want the address of the page with a code", &stdout)
		}
		return address
	}
	address := invite()
	first := p.ask("GET", address)
	cookies := first.Cookies()
	if first.StatusCode != 303 || first.Header.Get("Location") != "/dashboard" || len(cookies) != 1 {
		t.Fatalf("got %d to %q with %d cookies, want 303 to /dashboard with one", first.StatusCode, first.Header.Get("Location"), len(cookies))
	}
	page := p.ask("GET", "/dashboard", "Cookie", cookies[0].Name+"="+cookies[0].Value)
	body, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != 200 {
		t.Errorf("with the cookie: got %d (%v), want the page", page.StatusCode, err)
	}
	said = append(said, first.Header.Get("Location"), cookies[0].String(), string(body))
	for what, path := range map[string]string{"the same code": address, "the token": "/dashboard?token=" + p.token, "the token as a code": "/dashboard?code=" + p.token} {
		if got := p.ask("GET", path); got.StatusCode != 401 {
			t.Errorf("%s: got %d, want 401", what, got.StatusCode)
		}
	}
	if got := p.ask("GET", "/mcp", "Cookie", cookies[0].Name+"="+cookies[0].Value); got.StatusCode != 401 {
		t.Errorf("/mcp with the cookie: got %d, want 401", got.StatusCode)
	}
	for _, text := range said {
		if strings.Contains(text, p.token) {
			t.Errorf("the token is in %.200q", text)
		}
	}
	t.Setenv("MCPSCHEDD_TOKEN", "another-token-of-many-letters")
	if err := execute(t.Context(), []string{"dashboard", "--http", p.addr}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "401 Unauthorized") {
		t.Errorf("with a wrong token: got %v", err)
	}
}

// The response of another program at the proxy's address is printed without control characters.
func TestDashboardAddressIsText(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"address":"/dashboard?code=\u001b]0;x\u0007\nrun this"}`)
	}))
	defer other.Close()
	t.Setenv("MCPSCHEDD_TOKEN", "a-token-of-many-letters")
	var stdout bytes.Buffer
	if err := execute(t.Context(), []string{"dashboard", "--http", other.URL}, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := stdout.String(); strings.ContainsAny(got, "\x1b\a") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

// A flag that overrides a line of the configuration is not a change of the file, so a reload does
// not ask for a restart because of it.
func TestReloadUnderAFlag(t *testing.T) {
	serveOver(t, "127.0.0.1", "", "--auth", "none")
	home := os.Getenv("HOME")
	log, file := filepath.Join(home, "log"), filepath.Join(home, "conf.toml")
	replaceFile(t, file, fmt.Sprintf("[log]\nfile = %q\n", log))
	var said []byte
	mcptest.Eventually(t, "the configuration was reloaded", func() bool {
		said, _ = os.ReadFile(log)
		return bytes.Contains(said, []byte("configuration reloaded"))
	})
	if bytes.Contains(said, []byte("needs a restart")) {
		t.Errorf("got %s", said)
	}
}
