//go:build !unix

package events_test

func limitFiles() {}
