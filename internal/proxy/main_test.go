package proxy_test

import (
	"io/fs"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/upstream"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	os.Exit(m.Run())
}

// child returns an upstream that is a process of its own.
func child(t testing.TB, o mcptest.Options) proxy.Upstream {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return proxy.Upstream{
		Fingerprint: o.Env(),
		Spec: upstream.Spec{
			Name: o.Name, StartTimeout: patience, MaxMessage: 8 << 20,
			Command: upstream.Command{Path: self, Env: []string{o.Env(), "GORACE=atexit_sleep_ms=0"}},
		},
	}
}

// remote returns an upstream over HTTP and its server.
func remote(t testing.TB, o mcptest.Options) (*mcptest.Server, proxy.Upstream) {
	t.Helper()
	s := mcptest.New(o)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return s, proxy.Upstream{
		Fingerprint: web.URL,
		Spec:        upstream.Spec{Name: o.Name, URL: web.URL, StartTimeout: patience, MaxMessage: 8 << 20},
	}
}

// options returns options of a proxy with these upstreams, which waits for all of them.
func options(ups ...proxy.Upstream) proxy.Options {
	return proxy.Options{Upstreams: ups, StartupWait: patience, DrainTimeout: patience}
}

// keep returns a store in memory.
func keep() upstream.Store {
	var mu sync.Mutex
	var kept []byte
	return upstream.Store{
		Load: func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if kept == nil {
				return nil, fs.ErrNotExist
			}
			return kept, nil
		},
		Save: func(data []byte) error {
			mu.Lock()
			defer mu.Unlock()
			kept = data
			return nil
		},
	}
}
