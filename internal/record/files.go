package record

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// stamp is the layout of the start time (UTC) in the name of a process.
const stamp = "20060102T150405"

// processFile matches the names of the files that a process writes: log parts, lock, and status, also one
// that a killed process has not finished.
var processFile = regexp.MustCompile(`^(\d{8}T\d{6}-\d+-[0-9a-f]{4,8})\.(?:\d{3,9}\.jsonl(?:\.gz)?|lock|status\.json(?:\.\d+\.tmp)?)$`)

// File is a file in the folder of the logs: one part of the log of a process, its lock or its
// status.
type File struct {
	Path     string
	Process  string    // name of the process; the base name of a file that is not named by processFile
	Running  bool      // the process has not ended
	Size     int64     // bytes
	Modified time.Time // time of the last write
}

func (f *File) isLog() bool { return strings.HasSuffix(strings.TrimSuffix(f.Path, ".gz"), ".jsonl") }

// Files lists the *.jsonl and *.jsonl.gz files of a folder by name, which is by the start of
// their process and then by part. It lists only regular files and links to them, and none if the
// folder does not exist.
func Files(dir string) ([]File, error) {
	files, err := allFiles(dir)
	return slices.DeleteFunc(files, func(f File) bool { return !f.isLog() }), err
}

// allFiles is Files with all other files.
func allFiles(dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // a pipe might never end
			files = append(files, newFile(path, info))
		}
	}
	return files, err
}

// newFile returns the File at path, with the process that its name states.
func newFile(path string, info os.FileInfo) File {
	f := File{Path: filepath.Clean(path), Process: filepath.Base(path), Size: info.Size(), Modified: info.ModTime()}
	if m := processFile.FindStringSubmatch(f.Process); m != nil {
		f.Process = m[1]
		f.Running = isRunning(filepath.Dir(path), f.Process)
	}
	return f
}

// filesNamed returns the files that a name of [Read] stands for.
func filesNamed(name string) ([]File, error) {
	if name == "-" {
		return []File{{Path: name, Process: name}}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{newFile(name, info)}, nil
	}
	all, err := Files(name)
	if err == nil && len(all) == 0 {
		err = errors.New("no *.jsonl in this folder")
	}
	return all, err
}

// removeOld removes logs older than keepAge, the oldest logs beyond keepBytes, and what killed
// processes left. If the log of a running process is removed, the process begins another one.
func removeOld(dir string, keepBytes int64, keepAge time.Duration) {
	files, _ := allFiles(dir) // without a list there is nothing to remove
	slices.SortStableFunc(files, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	var kept int64
	for _, f := range files {
		old, age := false, time.Since(f.Modified)
		switch {
		case !processFile.MatchString(filepath.Base(f.Path)): // of another program
		case f.isLog():
			kept += f.Size
			old = kept > keepBytes || age > keepAge
		default: // a process that starts may not hold the lock yet
			old = age > startGrace && !f.Running
		}
		if old {
			_ = os.Remove(f.Path) // another process may have removed it already
		}
	}
}
