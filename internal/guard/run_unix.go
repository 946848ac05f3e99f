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
	grace = time.Second           // from SIGTERM to SIGKILL
	poll  = 10 * time.Millisecond // interval of checks whether the groups have exited
)

// Run reads lines "+PGID" and "-PGID", which register and unregister process groups, until
// r ends. It then ends the registered groups.
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

// apply registers or unregisters the group in one line. It ignores 0 and 1: a signal to
// -0 or -1 goes to the guard's own group or to every process.
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

// signalGroups sends sig to each group and removes the groups that have exited.
func signalGroups(groups map[int]struct{}, sig syscall.Signal) {
	for pgid := range groups {
		if err := syscall.Kill(-pgid, sig); errors.Is(err, syscall.ESRCH) {
			delete(groups, pgid)
		}
	}
}
