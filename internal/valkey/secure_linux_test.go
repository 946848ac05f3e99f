package valkey_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/valkey"
)

// documentedUser returns the user in docs/replicas.md, with a password.
func documentedUser(t *testing.T, password string) (name string, acl []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^user .*`).Find(text)
	if line == nil {
		t.Fatal("docs/replicas.md has no user")
	}
	acl = strings.Fields(strings.Replace(string(line), "PASSWORD", password, 1))
	return acl[1], append([]string{"--user"}, acl[1:]...)
}

// use makes a replica run all its commands.
func use(t *testing.T, s *valkey.Store) {
	t.Helper()
	places := []call.Place{{Domain: "host"}, {Slot: 7}}
	relied(t, s)
	var write dedup.Announcement
	waitUntil(t, "a write begins", func() (begun bool) {
		var err error
		write, err = s.Announce(t.Context(), places, func(error) {})
		return err == nil
	})
	write.End()
	var tokens []string
	waitUntil(t, "the write has ended", func() bool {
		var err error
		tokens, err = s.Lookup(t.Context(), places)
		return err == nil && tokens[0] != "" && tokens[1] != ""
	})
	_, keep := s.Lead(t.Context(), "key", tokens, func() {})
	if keep == nil {
		t.Fatal("Update failed")
	}
	keep(nil)
	if err := s.Update(t.Context(), "n", func([]byte) ([]byte, error) { return []byte("1"), nil }); err != nil {
		t.Errorf("Update: %v", err)
	}
	counted := make(chan int, 10)
	s.WatchCount(func(n int, _ bool) { counted <- n })
	if got := <-counted; got != 1 {
		t.Errorf("counted %d replicas, want 1", got)
	}
	if got, err := s.Take(limit.TokenRequest{Host: "host", Rate: 1, Burst: 2, MinTokens: 1, MaxPerHour: 3}); err != nil || got.QuotaWait != 0 {
		t.Errorf("a prefetch: got %+v (%v), want that there is a quota", got, err)
	}
	s.PublishFigures(func() []byte { return []byte("figures") })
}

// TestDocumentedUser: the documented user may run all commands of replicas.
func TestDocumentedUser(t *testing.T) {
	t.Parallel()
	name, acl := documentedUser(t, "s3cret")
	at := startServer(t, acl...)
	a, b := shared(t, "valkey://"+name+":s3cret@"+at.addr), (*valkey.Store)(nil)
	heard := make(chan string, 10)
	a.OnLimited(func(host string, _ time.Duration) { heard <- host })
	use(t, a)
	b = shared(t, "valkey://"+name+":s3cret@"+at.addr)
	b.WatchCount(func(int, bool) {})
	waitUntil(t, "the figures of the other", func() bool { return len(b.Figures(t.Context())) == 1 })
	waitUntil(t, "what the other tells", func() bool {
		b.PublishLimited("host", time.Second)
		select {
		case host := <-heard:
			return host == "host"
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
}

// certificates writes an authority's certificate, and returns it with a function that issues
// certificates for a server's name.
func certificates(t *testing.T) (authority string, issue func(name string) (args []string)) {
	t.Helper()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		var text bytes.Buffer
		_ = pem.Encode(&text, &pem.Block{Type: kind, Bytes: der})
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(dayLong),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	ca, err := x509.CreateCertificate(rand.Reader, &own, &own, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	authority = write("ca.pem", "CERTIFICATE", ca)
	return authority, func(name string) []string {
		leaf := x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: own.NotBefore, NotAfter: own.NotAfter}
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = []net.IP{ip}
		} else {
			leaf.DNSNames = []string{name}
		}
		der, err := x509.CreateCertificate(rand.Reader, &leaf, &own, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return []string{
			"--tls-cert-file", write("server.pem", "CERTIFICATE", der), "--tls-key-file", write("key.pem", "PRIVATE KEY", secret),
			"--tls-ca-cert-file", authority, "--tls-auth-clients", "no", "--tls-replication", "yes",
		}
	}
}

// startTLS starts a server that listens only with TLS.
func startTLS(t *testing.T, more ...string) *store {
	t.Helper()
	addr, port := freePort(t)
	s := &store{t: t, addr: addr, args: append([]string{"--bind", "127.0.0.1", "--port", "0", "--tls-port", port, "--save", "", "--dir", t.TempDir(), "--loglevel", "warning"}, more...)}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// TestSentinelSecure: with TLS, and a different password for each Sentinel and server, replicas find
// the primary and its successor.
func TestSentinelSecure(t *testing.T) {
	authority, issue := certificates(t)
	t.Setenv("SSL_CERT_FILE", authority) // Go reads it once, at the first TLS connection
	name, acl := documentedUser(t, "s3cret")
	quick := append(append(issue("127.0.0.1"), acl...), "--requirepass", "admin", "--masterauth", "admin", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	g := group{startTLS(t, quick...)}
	_, port, _ := net.SplitHostPort(g[0].addr)
	for range 2 {
		g = append(g, startTLS(t, append(quick, "--replicaof", "127.0.0.1 "+port)...))
	}

	config := filepath.Join(t.TempDir(), "sentinel.conf")
	addr, own := freePort(t)
	cert := issue("localhost") // the name by which the replicas connect to the Sentinel
	text := "bind 127.0.0.1\nport 0\ntls-port " + own + "\nuser default off\nuser watch on >w4tch ~* &* +@all\n" +
		"sentinel monitor group 127.0.0.1 " + port + " 1\nsentinel auth-pass group admin\n" +
		"sentinel down-after-milliseconds group 2000\nsentinel failover-timeout group 4000\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinel := &store{t: t, addr: addr, args: append([]string{config, "--sentinel"}, cert...)}
	sentinel.start()
	t.Cleanup(sentinel.kill)

	url := "rediss://" + name + ":s3cret@localhost:" + own + "?master_set=group&servers=3&sentinel_username=watch&sentinel_password="
	log := new(buffer)
	wrong, err := valkey.New(valkey.Options{URL: url + "wr0ng", Lease: lease, WriteSettle: shortSettle, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the log says that a password is wrong", func() bool { return strings.Contains(log.String(), "WRONGPASS") })
	wrong.Close()
	if strings.Contains(log.String(), "wr0ng") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log has a password: %s", log)
	}

	s, err := valkey.New(valkey.Options{URL: url + "w4tch", Lease: lease, WriteSettle: shortSettle, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	defer func() {
		if t.Failed() {
			t.Logf("the log: %s", log)
		}
	}()
	use(t, s)
	g[0].kill()
	waitUntil(t, "its loss is seen", func() bool { _, err := s.Lookup(t.Context(), []call.Place{{Domain: "host"}}); return err != nil })
	relied(t, s)
}
