//go:build unix

package upstream

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	orphan := write("orphan", "#!"+dir+"/none\n", 0o700)
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("bin/here", "#!/bin/sh\n", 0o700)
	t.Chdir(dir)
	path := []string{"PATH=/none", "PATH=/nowhere:" + dir + "::."}
	tests := map[string]struct {
		command Command
		want    string
	}{
		"not in PATH":          {Command{Path: "foo", Env: path}, `command "foo" not found in PATH`},
		"not executable there": {Command{Path: "plain", Env: path}, `command "plain" not found in PATH`},
		"no PATH":              {Command{Path: "foo"}, `command "foo" not found in PATH`},
		"no command":           {Command{}, `no command`},
		"relative PATH":        {Command{Path: "here", Env: []string{"PATH=:bin"}}, `command "here" not found in PATH`},
		"no such path":         {Command{Path: dir + "/none"}, `command "` + dir + `/none": no such file or directory`},
		"not executable":       {Command{Path: plain}, `command "` + plain + `": permission denied`},
		"relative":             {Command{Path: "./none", Dir: dir}, `command "./none": no such file or directory`},
		"with arguments":       {Command{Path: dir + "/bin/here --port 1"}, `command "` + dir + `/bin/here --port 1": want ` + dir + `/bin/here alone, with its arguments in args`},
		"a folder":             {Command{Path: dir}, `command "` + dir + `": is a directory`},
		"no interpreter":       {Command{Path: "orphan", Env: path}, `command "orphan": the interpreter or loader of ` + orphan + ` does not exist`},
		"no folder":            {Command{Path: "sh", Dir: dir + "/none", Env: path}, `working directory "` + dir + `/none" is not a directory`},
		"folder is a file":     {Command{Path: "sh", Dir: plain, Env: path}, `working directory "` + plain + `" is not a directory`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := run(t, test.command, Options{}).work(t.Context()); got != test.want {
				t.Errorf("got error %s, want %s", got, test.want)
			}
		})
	}
}

func TestCommandIsFoundInItsOwnPath(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho $PLACE:$1:$(basename $PWD) >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"server", "../server"} {
		got := run(t, Command{
			Path: path, Args: []string{"arg"}, Dir: work,
			Env: []string{"PATH=/bin:/usr/bin:" + dir, "PLACE=here"},
		}, Options{}).work(t.Context())
		if want := "exit status 3\nits last lines on stderr:\n  here:arg:work"; !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestProcessInheritsNoEnvironment(t *testing.T) {
	t.Setenv("SECRET", "known")
	for _, env := range [][]string{nil, {"A=b"}} {
		got := run(t, Command{
			Path: "/bin/sh", Args: []string{"-c", "echo secret:$SECRET >&2"}, Env: env,
		}, Options{}).work(t.Context())
		if want := "exit status 0\nits last lines on stderr:\n  secret:"; !strings.HasSuffix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
