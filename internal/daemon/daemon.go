// Package daemon is how the clients of one user find the one process that serves them all,
// start it where there is none, and carry their messages to it.
//
// The idea: a client starts [Connect], a thin end on its stdio. That finds the daemon by a
// socket that is named after the configuration, says where it works and by which variables,
// and then passes lines on, both ways:
//
//	place, err := daemon.NewPlace(stateDir, config)
//	err = daemon.Connect(ctx, os.Stdin, os.Stdout, daemon.Options{Place: place, Start: start})
//
// The daemon's end is a [Listener]. A lock, not the socket, says that a daemon runs: its holder
// may remove what a crash has left. Which version of the protocol between the two ends is
// spoken is part of the names of both, so a daemon of another version is another daemon.
//
// It leaves out what a daemon does for its clients, and links nothing of that: Connect runs
// once for each client, in a program of its own.
package daemon

import "errors"

// Protocol is the version of what is said before the first message of a client, and of what
// is expected of the daemon afterwards. It is a variable for tests of two versions alone. A
// later one has to see to it that its hook is heard by daemons of this one, too, while they
// have clients.
var Protocol = 1

var (
	// ErrRunning: another process is the daemon already.
	ErrRunning = errors.New("the daemon runs already")
	// ErrNoDaemon: there is no daemon, and none could be started. Nothing of the client was read.
	ErrNoDaemon = errors.New("no daemon")
)
