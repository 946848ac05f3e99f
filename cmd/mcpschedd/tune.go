package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcpschedd/internal/config"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/secret"
	"mcpschedd/internal/state"
	"mcpschedd/internal/tune"
	"mcpschedd/internal/valuemodel"
)

func tuneCommand() *cobra.Command {
	f := new(tuneFlags)
	c := &cobra.Command{
		Use:   "tune [FILE...]",
		Short: "Propose tool settings from recorded calls",
		Long: `Derives tool settings from recorded events and learned state, and prints them as
tuned.toml, with the evidence for each line. It calls no server.

FILE is an event log, plain or gzip, a directory of them, or recorded calls as replay
reads them (default: state_dir/events).

tuned.toml is a layer below the configuration: your own settings win. Settings that could
cause a wrong result if the recording misleads, such as what a tool does and how long its
results stay fresh, are never in it. They are printed as commented lines to paste, with
--diff and --write on stderr.`,
		Example: `  mcpschedd tune
  mcpschedd tune --claude-logs ~/.claude/projects --write
  mcpschedd tune --undo`,
		RunE: func(c *cobra.Command, words []string) error {
			f.files = words
			return runTune(c.Context(), f, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	configFlag(c, &f.config)
	c.Flags().StringArrayVar(&f.logs, "claude-logs", nil, "also learn from Claude Code's session logs in `DIR`, such\nas ~/.claude/projects, as if their calls were live;\nrepeatable")
	action := func(name, help string) {
		c.Flags().BoolFunc(name, help, func(string) error { f.action = name; return nil })
	}
	action("diff", "print what would change in tuned.toml")
	action("write", "write tuned.toml beside the configuration, and keep the\nprevious file as tuned.toml.bak")
	action("undo", "undo the last --write")
	c.MarkFlagsMutuallyExclusive("diff", "write", "undo")
	return c
}

// tuneFlags are the flags and arguments of tune.
type tuneFlags struct {
	files, logs []string
	config      string
	action      string // "", diff, write or undo
}

// runTune proposes settings, and prints, diffs, writes or reverts them.
func runTune(ctx context.Context, f *tuneFlags, stdout, stderr io.Writer) error {
	c, err := loadUntuned(f.config)
	if err != nil {
		return err
	}
	path := config.TunedPath(c.Path)
	if f.action != "" && path == "" {
		return hinted{misused{errors.New("there is no place for tuned.toml: neither XDG_CONFIG_HOME nor HOME is set")}, "name a configuration with --config"}
	}
	if f.action == "undo" {
		return undoTuned(path, stderr)
	}
	t, err := newTuning(c, stderr)
	if err != nil {
		return err
	}
	if err := t.read(ctx, f); err != nil {
		return err
	}
	p := t.propose()
	advice := p.AdviceTOML() + t.classes(p.Unclassified)
	if f.action == "" {
		_, err := io.WriteString(stdout, string(p.TOML())+advice)
		return err
	}
	io.WriteString(stderr, advice)
	return t.put(path, p.TOML(), f.action == "write", stdout)
}

// loadUntuned reads a configuration without its tuned.toml, so that proposals do not depend on
// earlier proposals.
func loadUntuned(file string) (*config.Config, error) { return loadBy(file, config.LoadUntuned) }

// tuning is one run of tune.
type tuning struct {
	reporter
	config    *config.Config
	models    *valuemodel.Models
	upstreams []lastKnown
	dir       state.Dir
	tuner     *tune.Tuner
	calls     int // read so far
}

func newTuning(c *config.Config, stderr io.Writer) (*tuning, error) {
	dir, err := stateDir(c)
	if err != nil {
		return nil, err
	}
	o := options(c, dir, slog.New(slog.DiscardHandler))
	t := &tuning{reporter: reporter{stderr: stderr}, config: c, models: o.Models, upstreams: lastKnowns(o.Upstreams), dir: dir}
	t.tuner = tune.New(tune.Options{
		Model:          func(tool string) *valuemodel.Model { return t.tool(tool).Model },
		Missing:        t.missing,
		Secret:         holdsSecret,
		MinProbability: c.Enrichment.MinProbability,
		Waste:          span(c.Enrichment.WasteMS, time.Millisecond),
		MaxAge:         time.Duration(c.Enrichment.MaxAge),
	})
	return t, nil
}

// upstream returns the configured upstream of a tool.
func (t *tuning) upstream(tool string) (k lastKnown, known bool) {
	owner, _, _ := strings.Cut(tool, "/")
	i := slices.IndexFunc(t.upstreams, func(k lastKnown) bool { return k.name() == owner })
	if i < 0 {
		return lastKnown{Upstream: proxy.Upstream{Model: valuemodel.Upstream{Name: owner}}}, false
	}
	return t.upstreams[i], true
}

// tool returns the current model of a tool. A tool of a trace has no upstream, and is resolved as
// replay does.
func (t *tuning) tool(tool string) proxy.SurveyedTool {
	_, name, ok := strings.Cut(tool, "/")
	if !ok {
		return proxy.SurveyedTool{Model: t.models.Resolve(recordedTools(), tool, valuemodel.Hints{})}
	}
	k, _ := t.upstream(tool)
	u, hints := proxy.WithServerClaims(k.Model, k.offer, name)
	return proxy.SurveyedTool{Model: t.models.Resolve(u, name, hints), Hints: hints}
}

// missing reports whether no configured upstream has the tool, as far as is known.
func (t *tuning) missing(tool string) bool {
	_, name, ok := strings.Cut(tool, "/")
	k, known := t.upstream(tool)
	return ok && !known || known && len(k.tools()) > 0 && !k.has(name)
}

// propose returns the proposals for the configured upstreams, and prints notes on what is left out.
func (t *tuning) propose() tune.Proposal {
	p := t.tuner.Propose()
	if len(p.Missing) > 0 {
		t.note("left out, as no server in the configuration is known to have them: %s", strings.Join(p.Missing, ", "))
	}
	if n := t.tuner.Dropped; n > 0 {
		t.note("%d lines left out: they name too many tools", n)
	}
	if len(p.Blocks) == 0 {
		t.note("nothing to propose from %d calls", t.calls)
	}
	return p
}

// maxClasses limits the number of tools in the advice on classes.
const maxClasses = 100

// classes returns commented lines that classify unclassified tools. Until a tool is classified, it
// is never prefetched, and little else is worth proposing.
func (t *tuning) classes(tools []string) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# These %d tools are unclassified: each call of them counts as a write, and none is\n# prefetched. Check these lines before you uncomment them:\n", len(tools))
	for _, tool := range tools[:min(len(tools), maxClasses)] {
		for line := range strings.Lines(suggestion(t.config, tool, t.tool(tool))) {
			b.WriteString("# " + strings.TrimLeft(line, "# "))
		}
	}
	if more := len(tools) - maxClasses; more > 0 {
		fmt.Fprintf(&b, "# (And %d more.)\n", more)
	}
	return b.String()
}

// put prints the diff to tuned.toml and, if write is set, writes the file.
func (t *tuning) put(path string, text []byte, write bool, stdout io.Writer) error {
	file, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	if len(text) == 0 || bytes.Equal(file.Text, text) {
		t.note("nothing to change in %s", path)
		return nil
	}
	if _, err := stdout.Write(state.Diff(path, file.Text, text)); err != nil || !write {
		return err
	}
	folder, err := state.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	if err = os.Rename(path, path+backupEnding); errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(path + backupEnding)
	}
	if err == nil {
		err = folder.Write(filepath.Base(path), text)
	}
	if err == nil {
		say(t.stderr, "wrote %s", path)
	}
	return err
}

// backupEnding is the suffix of the copy of tuned.toml from before the last --write.
const backupEnding = ".bak"

// undoTuned restores tuned.toml from its backup, or removes it if there is none.
func undoTuned(path string, stderr io.Writer) error {
	err := os.Rename(path+backupEnding, path)
	if err == nil {
		say(stderr, "restored %s", path)
	} else if errors.Is(err, fs.ErrNotExist) {
		if err = os.Remove(path); err == nil {
			say(stderr, "removed %s", path)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: nothing to undo", path)
		}
	}
	return err
}

// holdsSecret reports whether an argument's value, given as JSON, may be a secret.
func holdsSecret(argument, value string) bool {
	name, err := json.Marshal(argument)
	if err != nil {
		return true
	}
	object := []byte("{" + string(name) + ":" + value + "}")
	return !bytes.Equal(secret.JSON(object), object)
}
