//go:build !unix

package main

// becomeSmall would have the small program take the place of this one: only on Unix can it.
func becomeSmall(string) {}
