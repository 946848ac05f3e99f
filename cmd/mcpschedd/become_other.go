//go:build !unix

package main

// become does nothing: only Unix can replace the program of a process.
func become(string) {}
