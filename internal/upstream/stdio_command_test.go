//go:build unix

package upstream

import (
	"io/fs"
	"os"
	"path/filepath"
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
		"no PATH":              {Command{Path: "foo"}, `command "foo" not found: it has no PATH`},
		"no command":           {Command{}, `no command`},
		"relative PATH":        {Command{Path: "here", Env: []string{"PATH=:bin"}}, `command "here" not found in PATH`},
		"no such path":         {Command{Path: dir + "/none"}, `command "` + dir + `/none": no such file or directory`},
		"not executable":       {Command{Path: plain}, `command "` + plain + `" is not executable: permission denied`},
		"relative":             {Command{Path: "./none", Dir: dir}, `command "./none": no such file or directory`},
		"a folder":             {Command{Path: dir}, `command "` + dir + `": is a directory`},
		"no interpreter":       {Command{Path: "orphan", Env: path}, `command "orphan": what is to run ` + orphan + ` (its #! line or its loader) does not exist`},
		"no folder":            {Command{Path: "sh", Dir: dir + "/none", Env: path}, `working directory "` + dir + `/none": no such file or directory`},
		"folder is a file":     {Command{Path: "sh", Dir: plain, Env: path}, `working directory "` + plain + `": not a directory`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			heard := make(record, 10)
			_, err := startProcess(test.command, nil, nil, heard.sink())
			if err == nil || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
			if len(heard) > 0 {
				t.Errorf("got %q, want silence", <-heard)
			}
		})
	}
}

func TestCommandIsFoundInItsOwnPath(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nread line\necho '{\"jsonrpc\":\"2.0\",\"method\":\"'$PLACE:$1:$(basename $PWD)'\"}'\nread line\n"
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"server", "../server"} {
		p, heard := start(t, Command{
			Path: path, Args: []string{"arg"}, Dir: work,
			Env: []string{"PATH=/bin:/usr/bin:" + dir, "PLACE=here"},
		}, nil)
		p.mustSend(t, request(1, "{}"))
		heard.want(t, `message {"jsonrpc":"2.0","method":"here:arg:work"}`)
		p.close()
		heard.want(t, "closed: ended by the proxy")
	}
}

func TestProcessInheritsNoEnvironment(t *testing.T) {
	t.Setenv("SECRET", "known")
	for _, env := range [][]string{nil, {"A=b"}} {
		_, heard := start(t, Command{
			Path: "/bin/sh", Args: []string{"-c", `echo '{"jsonrpc":"2.0","method":"'secret:$SECRET'"}'`}, Env: env,
		}, nil)
		heard.want(t, `message {"jsonrpc":"2.0","method":"secret:"}`, "closed: exited with status 0")
	}
}
