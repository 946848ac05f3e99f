package main

import (
	"net/url"
	"testing"

	"golang.org/x/net/http/httpproxy"
)

// The HTTP proxy of a workplace is the one that other Go programs use with the same variables.
func TestWorkplaceProxy(t *testing.T) {
	for _, env := range []map[string]string{
		{"http_proxy": "lower.invalid:1", "HTTP_PROXY": "upper.invalid:2", "https_proxy": "lower.invalid:3", "HTTPS_PROXY": "upper.invalid:4"},
		{"HTTP_PROXY": "upper.invalid:2", "HTTPS_PROXY": "upper.invalid:4", "no_proxy": "a.example", "NO_PROXY": "b.example"},
		{"http_proxy": "lower.invalid:1", "NO_PROXY": "b.example"},
	} {
		for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"} {
			t.Setenv(name, env[name])
		}
		proxy, want := ownWorkplace().proxy(), httpproxy.FromEnvironment().ProxyFunc()
		for _, to := range []string{"http://a.example", "http://b.example", "https://a.example"} {
			u, err := url.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			got, err1 := proxy(u)
			other, err2 := want(u)
			if err1 != nil || err2 != nil || (got == nil) != (other == nil) || got != nil && *got != *other {
				t.Errorf("%v: %s: got the proxy %v (%v), want %v (%v)", env, to, got, err1, other, err2)
			}
		}
	}
}
