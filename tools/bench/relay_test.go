package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
)

// noise returns bytes of all values, including line ends and zeros.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestRelayCopiesBytesExactly(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := noise(3*copyBuffer + 17)
	for _, role := range []string{relayed, plainRelay} {
		cmd := exec.CommandContext(t.Context(), self, role, self, "cat")
		cmd.Stdin = bytes.NewReader(want)
		got, err := cmd.Output()
		if err != nil {
			t.Fatal(role, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %d bytes with sum %x, want %d with %x", role, len(got), sha256.Sum256(got), len(want), sha256.Sum256(want))
		}
	}
}

func TestPump(t *testing.T) {
	want := noise(2*copyBuffer + 5)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole":                       func(r io.Reader) io.Reader { return r },
		"half":                        iotest.HalfReader,
		"the end comes with the data": iotest.DataErrReader,
	} {
		var got bytes.Buffer
		if err := pump(&got, wrap(bytes.NewReader(want))); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got %d bytes, %v, want %d unchanged", name, got.Len(), err, len(want))
		}
	}
	if err := pump(io.Discard, iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil {
		t.Error("got no error from a broken reader, want its own")
	}
	r, w := io.Pipe()
	r.Close()
	if err := pump(w, bytes.NewReader(want)); err == nil {
		t.Error("got no error from a broken writer, want its own")
	}
}

// The relay and the server behind it end when their input ends.
func TestRelayEndsWithItsInput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n")
	if err := relay(in, &out, []string{self, rawUpstream}); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// serveHTTPRelay returns the address of an HTTP relay in front of an upstream.
func serveHTTPRelay(t *testing.T) string {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	h := newHTTPRelay(to)
	done := make(chan error, 2)
	go func() { done <- serveUpstream(in, out); out.Close() }()
	go func() { done <- h.read(from) }()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		to.Close()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
	return s.Listener.Addr().String()
}

func TestHTTPRelayMatchesAnswers(t *testing.T) {
	c := newHTTPClient(serveHTTPRelay(t), "/")
	defer c.close()
	names, err := handshake(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range sizes {
		call := blobCall(names.blob, size)
		length, err := prove(c, call)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.drive(load{call: call, window: 8, count: 40, length: length})
		if err != nil || len(s.latencies) != 40 {
			t.Errorf("%s: got %d answers, %v, want 40", sizeName(size), len(s.latencies), err)
		}
	}
}

func TestHTTPRelayStatus(t *testing.T) {
	url := "http://" + serveHTTPRelay(t)
	post, err := http.Post(url, "application/json", strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	post.Body.Close()
	get, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	get.Body.Close()
	if post.StatusCode != http.StatusAccepted || get.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d for a notification, %d for a GET, want 202 and 400", post.StatusCode, get.StatusCode)
	}
}
