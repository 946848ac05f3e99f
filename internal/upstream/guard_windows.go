package upstream

import (
	"io"
	"log/slog"
)

// GuardCommand is the hidden first argument of the guard on other systems.
const GuardCommand = "guard"

// Guard does nothing here: the job object of each process does its work.
type Guard struct{}

// NewGuard returns a Guard.
func NewGuard(*slog.Logger) *Guard { return &Guard{} }

// RunGuard returns at once.
func RunGuard(io.Reader) {}

// Close does nothing.
func (*Guard) Close() {}

func (*Guard) add(int)    {}
func (*Guard) remove(int) {}
