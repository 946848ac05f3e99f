//go:build unix

package guard

import (
	"bufio"
	"errors"
	"io"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

const (
	grace = time.Second           // from SIGTERM to SIGKILL for what the proxy left
	poll  = 10 * time.Millisecond // how often the guard looks whether it is gone
)

// Run reads lines "+PGID" and "-PGID" until they end, and ends the process groups
// that are left then.
func Run(r io.Reader) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	groups := make(map[int]struct{})
	for lines := bufio.NewScanner(r); lines.Scan(); {
		apply(groups, lines.Text())
	}
	signalGroups(groups, syscall.SIGTERM)
	for deadline := time.Now().Add(grace); len(groups) > 0 && time.Now().Before(deadline); {
		time.Sleep(poll)
		signalGroups(groups, 0)
	}
	signalGroups(groups, syscall.SIGKILL)
}

// apply adds or removes the group of one line. 0 and 1 are none: to signal -0 or -1
// is to signal the guard's own group, or every process.
func apply(groups map[int]struct{}, line string) {
	n, err := strconv.Atoi(line)
	switch {
	case err != nil:
	case n > 1:
		groups[n] = struct{}{}
	case n < -1:
		delete(groups, -n)
	}
}

// signalGroups sends sig to groups and takes out those that are gone.
func signalGroups(groups map[int]struct{}, sig syscall.Signal) {
	for pgid := range groups {
		if err := syscall.Kill(-pgid, sig); errors.Is(err, syscall.ESRCH) {
			delete(groups, pgid)
		}
	}
}
