package mcptest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a port of 127.0.0.1 for a program that cannot choose one itself. It is below
// those that systems give out, so nothing gets it by chance before the program listens, or while
// the program is restarted. Until the test ends, no other call returns it, in any process: each
// holds the UDP port of the same number.
func FreePort(t testing.TB) (port string) {
	t.Helper()
	for range 1000 {
		port = strconv.Itoa(10_000 + rand.IntN(20_000))
		addr := net.JoinHostPort("127.0.0.1", port)
		held, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			held.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { held.Close() })
		return port
	}
	t.Fatal("there is no free port")
	return ""
}
