// Package daemon connects the clients of one user to the single process that serves them all,
// and starts that process if necessary.
//
// A client starts [Connect], a small process that speaks MCP on stdio. Connect dials the
// daemon's socket, which is named after the configuration, sends its working directory and
// environment, and then forwards lines in both directions:
//
//	place, err := daemon.NewPlace(stateDir, config)
//	err = daemon.Connect(ctx, os.Stdin, os.Stdout, daemon.Options{Place: place, Start: start})
//
// The daemon's end is a [Listener]. The process that holds a lock file is the daemon; it may
// remove a socket left behind by a crash. The protocol version is part of the names of socket
// and lock, so daemons of different versions run side by side.
//
// The package does not link the proxy that a daemon runs, since Connect runs once for each
// client in a small program of its own.
package daemon

import "errors"

// Protocol is the version of the handshake, and of the behaviour that clients expect of the
// daemon afterwards. It is a variable only so that tests can run two versions. The hook of a
// later version must also reach daemons of this version while these have clients.
var Protocol = 1

var (
	// ErrRunning means that another process is the daemon.
	ErrRunning = errors.New("the daemon runs already")
	// ErrNoDaemon means that no daemon could be reached or started. Connect has not read any
	// input of the client.
	ErrNoDaemon = errors.New("no daemon")
)
