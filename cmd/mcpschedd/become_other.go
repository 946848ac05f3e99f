//go:build !unix

package main

// become would have another program take the place of this one: only on Unix can it.
func become(string) {}
