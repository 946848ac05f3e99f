//go:build !unix

package record_test

func limitFiles() {}
