package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/secret"
	"mcpschedd/internal/state"
	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

const usageTune = `usage: mcpschedd tune [--events FILE...] [--trace FILE...] [--claude-logs DIR...] [--config FILE] [--write]

Works out from recorded calls what the configuration should say of the tools, and
prints it as [tools.*] blocks, with what speaks for each line. Starts nothing and
asks nobody.

  --events FILE...      event logs, plain or gzip, or folders of them
  --trace FILE...       recorded calls, as replay takes them
  --claude-logs DIR...  session logs of Claude Code, such as ~/.claude/projects
                        (default, without any of the three: the event logs in
                        state_dir/events, and what was learned so far)
  --config FILE         the configuration (default: see mcpschedd help)
  --write               put it into the configuration, show what changes, and
                        keep the file as it was as FILE.bak-TIME

What you have set yourself stays as it is. What --write puts there ends in a
comment "# tune ...: ...", and is brought up to date by the next --write until you
change its value; make the line a comment, and it is not proposed again. Lines
"# tune ... advice" are for you to decide, and are never settings. Of tools that
nobody says what they do the lines to say it with follow, as comments; with
--write they go to stderr.
`

// tuneFlags are its command line.
type tuneFlags struct {
	events, traces, logs []string
	config               string
	write                bool
}

// runTune proposes settings, and writes them if it is told to.
func runTune(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f, err := parseTune(args, stdout)
	if err != nil {
		return err
	}
	t, err := newTuning(f, stderr)
	if err != nil {
		return err
	}
	if err := t.read(ctx, f); err != nil {
		return err
	}
	l := t.layer(f.write)
	if len(l.Blocks) == 0 {
		fmt.Fprintf(stderr, "mcpschedd: nothing to propose from %s\n", t.summary())
	}
	classes := t.classes(l.Unclassified)
	if f.write { // then what goes to stdout is a diff
		io.WriteString(stderr, classes)
		if len(l.Blocks) == 0 {
			return nil
		}
		return t.write(l, stdout)
	}
	text, err := tune.Render(l)
	if err != nil {
		return err
	}
	if len(text) > 0 && classes != "" {
		text = append(text, '\n')
	}
	_, err = stdout.Write(append(text, classes...))
	return err
}

// parseTune reads the command line. A flag that takes files takes all that stand
// behind it.
func parseTune(args []string, stdout io.Writer) (*tuneFlags, error) {
	f := new(tuneFlags)
	fs := flag.NewFlagSet("tune", flag.ContinueOnError)
	var files *[]string // of the last flag that takes some
	for name, list := range map[string]*[]string{"events": &f.events, "trace": &f.traces, "claude-logs": &f.logs} {
		fs.Func(name, "", func(s string) error { *list, files = append(*list, s), list; return nil })
	}
	fs.Func("config", "", func(s string) error { f.config, files = s, nil; return nil })
	fs.BoolFunc("write", "", func(string) error { f.write, files = true, nil; return nil })
	for rest := args; ; rest = fs.Args()[1:] {
		if err := parse(fs, rest, usageTune, stdout); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			return f, nil
		}
		if files == nil {
			return nil, noArguments(fs, usageTune)
		}
		*files = append(*files, fs.Arg(0))
	}
}

// tuning is one run.
type tuning struct {
	config    *config.Config
	models    *valuemodel.Models
	upstreams []lastKnown
	dir       state.Dir
	miner     *tune.Miner
	sources   []tune.Source
	stderr    io.Writer
	next      time.Time // when to say how far it is
	problems  int
}

func newTuning(f *tuneFlags, stderr io.Writer) (*tuning, error) {
	c, err := load(f.config)
	if f.write && f.config != "" && errors.Is(err, fs.ErrNotExist) { // it will be made
		c = config.Default()
		c.Path, err = filepath.Abs(f.config)
	}
	if err != nil {
		return nil, err
	}
	dir, err := stateDir(c)
	if err != nil {
		return nil, err
	}
	t := &tuning{config: c, dir: dir, stderr: stderr, next: time.Now().Add(progressEvery)}
	t.models, _ = models(c) // its problems kept the configuration from being loaded
	t.upstreams = known(options(c, dir, slog.New(slog.DiscardHandler)).Upstreams)
	t.miner = tune.New(tune.Options{
		Model:          t.model,
		Missing:        t.missing,
		Secret:         holdsSecret,
		MinProbability: c.Enrichment.MinProbability,
		Waste:          span(c.Enrichment.WasteMS, time.Millisecond),
		MaxAge:         time.Duration(c.Enrichment.MaxAge),
	})
	return t, nil
}

// model is what is known of a tool now. Those of a trace have no upstream: they are
// what replay takes them for.
func (t *tuning) model(tool string) *valuemodel.Model {
	owner, name, ok := strings.Cut(tool, "/")
	if !ok {
		return t.models.Resolve(recordedTools(), tool, valuemodel.Hints{})
	}
	for _, k := range t.upstreams {
		if k.name() == owner {
			return proxy.Known(t.models, k.Model, k.offer, name)
		}
	}
	return t.models.Resolve(valuemodel.Upstream{Name: owner}, name, valuemodel.Hints{})
}

// missing reports whether the upstream of a tool is configured, and did not list the
// tool when it was asked last.
func (t *tuning) missing(tool string) bool {
	owner, name, _ := strings.Cut(tool, "/")
	i := slices.IndexFunc(t.upstreams, func(k lastKnown) bool { return k.name() == owner })
	return i >= 0 && len(t.upstreams[i].tools()) > 0 && !t.upstreams[i].has(name)
}

// layer is what is proposed. Into a configuration goes nothing about upstreams that it
// does not have.
func (t *tuning) layer(write bool) tune.Layer {
	l := t.miner.Layer()
	l.Sources = t.sources
	for _, note := range l.Notes {
		t.note(note)
	}
	told := make(map[string]bool)
	foreign := func(tool string) bool {
		owner, _, ok := strings.Cut(tool, "/")
		if !ok || slices.ContainsFunc(t.upstreams, func(k lastKnown) bool { return k.name() == owner }) {
			return false
		}
		if !told[owner] {
			told[owner] = true
			t.note(fmt.Sprintf("upstream %q is not in the configuration", owner))
		}
		return true
	}
	l.Blocks = slices.DeleteFunc(l.Blocks, func(b tune.Block) bool { return foreign(b.Tool) && write || len(b.Lines) == 0 })
	l.Unclassified = slices.DeleteFunc(l.Unclassified, func(tool string) bool { return foreign(tool) && write })
	return l
}

// summary is what was read.
func (t *tuning) summary() string {
	calls, sessions := 0, 0
	for _, s := range t.sources {
		calls, sessions = calls+s.Calls, sessions+s.Sessions
	}
	return fmt.Sprintf("%d calls of %d sessions", calls, sessions)
}

// holdsSecret reports whether a value of an argument, as JSON, may be a secret.
func holdsSecret(argument, value string) bool {
	name, err := json.Marshal(argument)
	if err != nil {
		return true
	}
	object := []byte("{" + string(name) + ":" + value + "}")
	return !bytes.Equal(secret.JSON(object), object)
}
