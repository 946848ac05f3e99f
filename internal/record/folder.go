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

// stamp is how the time at which a process began stands in its name, in UTC.
const stamp = "20060102T150405"

// ours is how the files of a folder are called: parts of logs, locks and statuses.
var ours = regexp.MustCompile(`^(\d{8}T\d{6}-\d+-[0-9a-f]{4,8})\.(?:(\d{3,9})\.jsonl(?:\.gz)?|lock|status\.json)$`)

// File is one part of what a process has written.
type File struct {
	Path     string
	Process  string    // in another's file: the file's own name
	Part     int       // from 0
	Running  bool      // the process has not ended
	Size     int64     // bytes
	Modified time.Time // written to last
}

// Files lists the *.jsonl and *.jsonl.gz in a folder: of the process that began first, first,
// and in the order in which they were written. Only regular files, and links to them, are
// listed. A folder that does not exist holds none.
func Files(dir string) (files []File, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if info, ok := regular(path); ok && strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl") {
			files = append(files, single(path, info))
		}
	}
	inOrder(files)
	files = slices.CompactFunc(files, func(a, b File) bool { // a copy that gzip made, beside its original
		return a.Process == b.Process && a.Part == b.Part
	})
	return files, err
}

// single is one file; its process and part are in its name, if that is one of ours.
func single(path string, info os.FileInfo) File {
	f := File{Path: path, Process: filepath.Base(path), Size: info.Size(), Modified: info.ModTime()}
	if m := ours.FindStringSubmatch(f.Process); m != nil && m[2] != "" {
		f.Process = m[1]
		f.Part, _ = strconv.Atoi(m[2])
		f.Running = running(filepath.Dir(path), f.Process)
	}
	return f
}

// regular is what is known of a path that is a file, or a link to one: a pipe may have no
// end.
func regular(path string) (os.FileInfo, bool) {
	info, err := os.Stat(path)
	return info, err == nil && info.Mode().IsRegular()
}

// retain removes what is too old, and the oldest of what is too much. The last part of a
// process that runs is being written to: it stays, and does not count. While all of them
// seem too old, the clock may have jumped, and none goes for its age.
func retain(dir string, keepBytes int64, keepAge time.Duration) {
	entries, _ := os.ReadDir(dir) // what cannot be listed cannot be removed
	for _, entry := range entries {
		if m := ours.FindStringSubmatch(entry.Name()); m != nil && m[2] == "" && !running(dir, m[1]) {
			sweep(dir, m[1])
		}
	}
	files, _ := Files(dir)
	files = slices.DeleteFunc(files, func(f File) bool { return !ours.MatchString(filepath.Base(f.Path)) })
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
			_ = os.Remove(f.Path) // another process may have been faster
		}
	}
}

// named returns the files that a name stands for.
func named(name string) ([]File, error) {
	if name == "-" {
		return []File{{Path: name, Process: name}}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []File{single(name, info)}, nil
	}
	all, err := Files(name)
	if err == nil && len(all) == 0 {
		err = errors.New("no *.jsonl in this folder")
	}
	return all, err
}

// inOrder sorts files by process and part.
func inOrder(files []File) {
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(cmp.Compare(a.Process, b.Process), cmp.Compare(a.Part, b.Part), cmp.Compare(a.Path, b.Path))
	})
}
