package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// notices returns the licences that must be distributed with a program: those in the files of each
// module, and Go's.
func notices(source string, info *debug.BuildInfo) ([]byte, error) {
	root, err := output(source, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	list := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range info.Deps {
		list = append(list, m.Path)
	}
	found := "Go " + info.GoVersion + "\t" + root
	if len(info.Deps) > 0 {
		modules, err := output(source, nil, "go", list...)
		if err != nil {
			return nil, err
		}
		found += "\n" + modules
	}
	var b bytes.Buffer
	for line := range strings.SplitSeq(found, "\n") {
		name, dir, _ := strings.Cut(line, "\t")
		var files []string
		for _, pattern := range []string{"LICEN*", "COPYING*", "NOTICE*"} {
			some, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				return nil, err
			}
			files = append(files, some...)
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s: no licence in %s", name, dir)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "==== %s: %s\n\n%s\n\n", name, filepath.Base(file), bytes.TrimSpace(text))
		}
	}
	return b.Bytes(), nil
}
