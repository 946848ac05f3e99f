package record

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stamp is the layout of the start time (UTC) in the name of a process.
const stamp = "20060102T150405"

// processFile matches the names of the files that a process writes: log parts, lock and status.
var processFile = regexp.MustCompile(`^(\d{8}T\d{6}-\d+-[0-9a-f]{4,8})\.(?:(\d{3,9})\.jsonl(?:\.gz)?|lock|status\.json)$`)

// File is one part of the log of a process.
type File struct {
	Path     string
	Process  string    // name of the process; the base name of a file that is not named by processFile
	Part     int       // from 0
	Running  bool      // the process has not ended
	Size     int64     // bytes
	Modified time.Time // time of the last write
}

// Files lists the *.jsonl and *.jsonl.gz files of a folder, by the start of their process and
// then by part. It lists only regular files and links to them, and none if the folder does
// not exist.
func Files(dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, ok := statRegular(path); ok && strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl") {
			files = append(files, newFile(path, info))
		}
	}
	sortFiles(files)
	files = slices.CompactFunc(files, func(a, b File) bool { // a .gz beside its original
		return a.Process == b.Process && a.Part == b.Part
	})
	return files, err
}

// newFile returns the File at path, with the process and part that its name states.
func newFile(path string, info os.FileInfo) File {
	f := File{Path: path, Process: filepath.Base(path), Size: info.Size(), Modified: info.ModTime()}
	if m := processFile.FindStringSubmatch(f.Process); m != nil && m[2] != "" {
		f.Process = m[1]
		f.Part, _ = strconv.Atoi(m[2])
		f.Running = isRunning(filepath.Dir(path), f.Process)
	}
	return f
}

// statRegular reports whether a path is a regular file or a link to one. A pipe might never end.
func statRegular(path string) (os.FileInfo, bool) {
	info, err := os.Stat(path)
	return info, err == nil && info.Mode().IsRegular()
}

// removeOld removes files older than keepAge, and the oldest files beyond keepBytes. The last
// part of a running process is still being written: it is kept and does not count. If all
// files seem too old, the clock may have jumped, and none is removed for its age.
func removeOld(dir string, keepBytes int64, keepAge time.Duration) {
	entries, _ := os.ReadDir(dir) // without a list there is nothing to remove
	for _, entry := range entries {
		if m := processFile.FindStringSubmatch(entry.Name()); m != nil && m[2] == "" && !isRunning(dir, m[1]) {
			removeLeftovers(dir, m[1])
		}
	}
	files, _ := Files(dir)
	files = slices.DeleteFunc(files, func(f File) bool { return !processFile.MatchString(filepath.Base(f.Path)) })
	var done []File
	for i, f := range files {
		last := i+1 == len(files) || files[i+1].Process != f.Process
		if !f.Running || !last {
			done = append(done, f)
		}
	}
	slices.SortStableFunc(done, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	tooOld := func(f File) bool { return time.Since(f.Modified) > keepAge }
	aged := len(done) > 0 && !tooOld(done[0])
	var kept int64
	for _, f := range done {
		if kept += f.Size; kept > keepBytes || aged && tooOld(f) {
			_ = os.Remove(f.Path) // another process may have removed it already
		}
	}
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

// sortFiles sorts files by process and part.
func sortFiles(files []File) {
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Part, b.Part), cmp.Compare(a.Path, b.Path))
	})
}
