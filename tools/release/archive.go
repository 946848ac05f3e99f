package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"os"
	"time"
)

// entry is one file of an archive.
type entry struct {
	from, name string
	mode       os.FileMode
}

// writeTar writes files below one folder. Order, times, modes and owners are given rather than
// taken from the disk, so that equal files give equal bytes.
func writeTar(w io.Writer, folder string, made time.Time, files []entry) error {
	zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		head := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(content)), ModTime: made, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zipped.Close()
}

// writeZip is like writeTar, for Windows.
func writeZip(w io.Writer, folder string, made time.Time, files []entry) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return err
		}
		head := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: made}
		head.SetMode(f.mode)
		into, err := archive.CreateHeader(head)
		if err != nil {
			return err
		}
		if _, err := into.Write(content); err != nil {
			return err
		}
	}
	return archive.Close()
}
