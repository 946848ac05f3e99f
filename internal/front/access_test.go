package front_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"mcpschedd/internal/front"
)

func TestGuard(t *testing.T) {
	const ping = http.StatusMethodNotAllowed // status of GET /mcp if the request passes the guard
	open := front.HTTPOptions{Hosts: []string{"box.example"}, AllowedOrigins: []string{"https://app.example", "null"}}
	token := front.HTTPOptions{Token: "s3cret"}
	everywhere := front.HTTPOptions{Token: "s3cret", Hosts: []string{"box.example", "0.0.0.0"}}
	local := http.Header{"Origin": {"http://localhost:5173"}}
	tests := []struct {
		name    string
		options front.HTTPOptions
		path    string // "" means /mcp
		host    string
		local   string // address of the connection
		header  http.Header
		want    int
	}{
		{name: "localhost", host: "localhost:3000", want: ping},
		{name: "IPv4 loopback", host: "127.0.0.1", want: ping},
		{name: "IPv6 loopback", host: "[::1]:80", want: ping},
		{name: "another name", host: "evil.example:80", want: http.StatusForbidden},
		{name: "a name that begins like ours", host: "localhost.evil.example", want: http.StatusForbidden},
		{name: "no host", host: "", want: http.StatusForbidden},
		{name: "configured name", options: open, host: "BOX.example:80", want: ping},
		{name: "the address it came to", host: "192.0.2.7:80", local: "192.0.2.7:80", want: ping},
		{name: "another address", host: "192.0.2.8:80", local: "192.0.2.7:80", want: http.StatusForbidden},
		{name: "any address on a listener of all", options: everywhere, host: "192.0.2.8:80", local: "192.0.2.7:80", want: http.StatusUnauthorized},
		{name: "IPv6 address on a listener of all", options: everywhere, host: "[2001:db8::1]", want: http.StatusUnauthorized},
		{name: "configured name on a listener of all", options: everywhere, host: "box.example", want: http.StatusUnauthorized},
		{name: "another name on a listener of all", options: everywhere, host: "evil.example", want: http.StatusForbidden},
		{name: "no host on a listener of all", options: everywhere, host: "", want: http.StatusForbidden},
		{name: "page of this machine, no token asked", host: "localhost", header: local, want: http.StatusForbidden},
		{name: "page of another port, no token asked", host: "localhost:7777", header: http.Header{"Origin": {"http://localhost:7778"}}, want: http.StatusForbidden},
		{name: "page of another local name, no token asked", host: "localhost:7777", header: http.Header{"Origin": {"http://127.0.0.1:7777"}}, want: http.StatusForbidden},
		{name: "own page, no token asked", host: "localhost:7777", header: http.Header{"Origin": {"http://localhost:7777"}}, want: ping},
		{name: "own page by another scheme, no token asked", host: "localhost", header: http.Header{"Origin": {"https://localhost"}}, want: http.StatusForbidden},
		{name: "image on a page of a stranger", path: "/sse", host: "localhost", header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}, want: http.StatusForbidden},
		{name: "frame on a page of another port", path: "/sse", host: "localhost", header: http.Header{"Sec-Fetch-Site": {"same-site"}, "Sec-Fetch-Mode": {"navigate"}}, want: http.StatusForbidden},
		{name: "request of the own page", host: "localhost", header: http.Header{"Sec-Fetch-Site": {"same-origin"}}, want: ping},
		{name: "address typed in", host: "localhost", header: http.Header{"Sec-Fetch-Site": {"none"}, "Sec-Fetch-Mode": {"navigate"}}, want: ping},
		{name: "request of an allowed page", options: open, host: "localhost", header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://app.example"}}, want: ping},
		{name: "page of this machine without the token", options: token, host: "localhost", header: local, want: http.StatusUnauthorized},
		{name: "the token by another scheme", options: token, host: "localhost", header: http.Header{"Authorization": {"Basic s3cret"}}, want: http.StatusUnauthorized},
		{name: "page of this machine with the token", options: token, host: "localhost", header: http.Header{"Origin": {"http://localhost:5173"}, "Authorization": {"Bearer s3cret"}}, want: ping},
		{name: "preflight of this machine, no token asked", host: "localhost",
			header: http.Header{"Origin": {"http://localhost:5173"}, "Access-Control-Request-Method": {"POST"}}, want: http.StatusForbidden},
		{name: "page of this server", options: open, host: "box.example:80", header: http.Header{"Origin": {"http://box.example:80"}}, want: ping},
		{name: "page of a stranger", host: "localhost", header: http.Header{"Origin": {"https://evil.example"}}, want: http.StatusForbidden},
		{name: "page without origin", host: "localhost", header: http.Header{"Origin": {"null"}}, want: http.StatusForbidden},
		{name: "empty origin", host: "localhost", header: http.Header{"Origin": {""}}, want: http.StatusForbidden},
		{name: "two origins", host: "localhost", header: http.Header{"Origin": {"http://localhost", "https://evil.example"}}, want: http.StatusForbidden},
		{name: "other scheme", host: "localhost", header: http.Header{"Origin": {"file://localhost"}}, want: http.StatusForbidden},
		{name: "other scheme with the token", options: token, host: "localhost", header: http.Header{"Origin": {"file://localhost"}, "Authorization": {"Bearer s3cret"}}, want: http.StatusForbidden},
		{name: "allowed page", options: open, host: "localhost", header: http.Header{"Origin": {"https://app.example"}}, want: ping},
		{name: "allowed null", options: open, host: "localhost", header: http.Header{"Origin": {"null"}}, want: ping},
		{name: "token missing", options: token, host: "localhost", want: http.StatusUnauthorized},
		{name: "token wrong", options: token, host: "localhost", header: http.Header{"Authorization": {"Bearer s3cre"}}, want: http.StatusUnauthorized},
		{name: "token longer", options: token, host: "localhost", header: http.Header{"Authorization": {"Bearer s3cret1"}}, want: http.StatusUnauthorized},
		{name: "token of another scheme", options: token, host: "localhost", header: http.Header{"Authorization": {"Basic s3cret"}}, want: http.StatusUnauthorized},
		{name: "token", options: token, host: "localhost", header: http.Header{"Authorization": {"bearer s3cret"}}, want: ping},
		{name: "token guards what is not there", options: token, path: "/nothing", host: "localhost", want: http.StatusUnauthorized},
		{name: "health", options: token, path: "/healthz", host: "evil.example", want: http.StatusOK},
		{name: "a path that is cleaned to health", options: token, path: "/x/../healthz", host: "localhost", want: http.StatusUnauthorized},
		{name: "preflight", options: front.HTTPOptions{Token: "s3cret", AllowedOrigins: open.AllowedOrigins}, host: "localhost",
			header: http.Header{"Origin": {"https://app.example"}, "Access-Control-Request-Method": {"POST"}}, want: http.StatusNoContent},
		{name: "preflight of a stranger", options: open, host: "localhost",
			header: http.Header{"Origin": {"https://evil.example"}, "Access-Control-Request-Method": {"POST"}}, want: http.StatusForbidden},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			web := front.NewHTTP(front.Options{NewSession: newServer().begin, HTTP: test.options})
			method := http.MethodGet
			if test.header.Get("Access-Control-Request-Method") != "" {
				method = http.MethodOptions
			}
			path := test.path
			if path == "" {
				path = "/mcp"
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel() // otherwise a stream would not end
			r := httptest.NewRequestWithContext(gone, method, "http://localhost/", nil)
			r.URL.Path, r.Host = path, test.host
			maps.Copy(r.Header, test.header)
			if test.local != "" {
				addr, err := net.ResolveTCPAddr("tcp", test.local)
				if err != nil {
					t.Fatal(err)
				}
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
			}
			w := httptest.NewRecorder()
			web.ServeHTTP(w, r)
			if w.Code != test.want {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, test.want)
			}
			if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("got WWW-Authenticate %q, want Bearer", w.Header().Get("WWW-Authenticate"))
			}
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" && w.Code == http.StatusForbidden {
				t.Errorf("a refused origin is allowed to read: %q", got)
			}
		})
	}
}

func TestPreflightAllowsRequestedHeaders(t *testing.T) {
	web := front.NewHTTP(front.Options{HTTP: front.HTTPOptions{AllowedOrigins: []string{"https://app.example"}}})
	r := httptest.NewRequest(http.MethodOptions, "http://localhost/mcp", nil)
	r.Header.Set("Origin", "https://app.example")
	r.Header.Set("Access-Control-Request-Method", "DELETE")
	r.Header.Set("Access-Control-Request-Headers", "authorization, mcp-param-region")
	w := httptest.NewRecorder()
	web.ServeHTTP(w, r)
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin":  "https://app.example",
		"Access-Control-Allow-Methods": "GET, POST, DELETE",
		"Access-Control-Allow-Headers": "authorization, mcp-param-region",
		"Vary":                         "Origin",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
