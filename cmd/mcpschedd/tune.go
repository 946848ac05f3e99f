package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/config"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/record"
	"mcpschedd/internal/replay"
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
	action := func(name, help string) { choice(c, &f.action, name, "", help) }
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
	c, err := loadWith(f.config, untuned)
	if mistakes, ok := errors.AsType[*config.Error](err); ok && f.action == "undo" {
		c, err = mistakes.Salvage(nil), nil // undo works despite mistakes in the configuration
	}
	if err != nil {
		return err
	}
	path := config.TunedPath(c.Path)
	if f.action != "" && path == "" {
		return hinted{misused{errors.New("there is no place for tuned.toml: neither XDG_CONFIG_HOME nor HOME is set")}, "name a configuration with --config"}
	}
	if f.action == "undo" {
		if len(f.files)+len(f.logs) > 0 {
			return usage("--undo reads no calls: leave out files and --claude-logs")
		}
		return undoTuned(path, stderr)
	}
	t, err := newTuning(c, stderr)
	if err != nil {
		return err
	}
	if err := t.read(ctx, f); err != nil {
		return err
	}
	p := t.tuner.Propose()
	if len(p.Missing) > 0 {
		t.note("left out, as no server in the configuration is known to have them: %s", strings.Join(p.Missing, ", "))
	}
	if len(p.Blocks) == 0 {
		t.note("nothing to propose from %d calls", t.calls)
	}
	advice := p.AdviceTOML() + t.classes(p.Unclassified)
	if f.action == "" {
		_, err := io.WriteString(stdout, string(p.TOML())+advice)
		return err
	}
	io.WriteString(stderr, advice)
	return t.put(path, p.TOML(), f.action == "write", stdout)
}

// untuned reads a configuration without tuned.toml, so that proposals do not depend on earlier ones.
func untuned(path string) (*config.Config, error) {
	text, err := paths.Read(path)
	if err != nil {
		return nil, err
	}
	return config.Default().Parse(path, text)
}

// tuning is one run of tune.
type tuning struct {
	stderr    io.Writer
	config    *config.Config
	models    *valuemodel.Models
	upstreams []lastKnown
	dir       state.Dir
	tuner     *tune.Tuner
	calls     int // read so far
	problems  int // so far
}

func newTuning(c *config.Config, stderr io.Writer) (*tuning, error) {
	dir, err := stateToRead(c)
	if err != nil {
		return nil, err
	}
	o := proxyOptions(ownWorkplace(), c, dir, slog.New(slog.DiscardHandler))
	t := &tuning{stderr: stderr, config: c, models: o.Models, upstreams: lastKnowns(o.Upstreams), dir: dir}
	t.tuner = tune.New(tune.Options{
		Model:          func(tool string) *valuemodel.Model { return t.tool(tool).Model },
		Missing:        t.missing,
		Secret:         func(arguments []byte) bool { return !bytes.Equal(secret.JSON(arguments), arguments) },
		MinProbability: c.Enrichment.MinProbability,
		Waste:          c.Enrichment.Waste,
		MaxAge:         t.maxAge,
	})
	return t, nil
}

func (t *tuning) note(format string, args ...any) { say(t.stderr, "note: "+format, args...) }

func (t *tuning) warn(format string, args ...any) { say(t.stderr, "warning: "+format, args...) }

// maxProblems is the number of problems that are printed.
const maxProblems = 10

// problem counts a problem, and prints it if it is one of the first.
func (t *tuning) problem(p record.Problem) {
	if t.problems++; t.problems <= maxProblems {
		t.warn("%s", p.Error())
	}
}

// read reads the named files, or the proxy's own event logs, and learned state. Unreadable input is
// reported and skipped; it is an error if nothing is left.
func (t *tuning) read(ctx context.Context, f *tuneFlags) error {
	for _, k := range t.upstreams {
		if k.Spec.Unusable != nil {
			t.note("%s", k.unknown())
		}
		learned, err := k.learnedState()
		if err == nil && len(learned.Server) > 0 {
			err = t.tuner.AddLearned(k.name(), learned)
		}
		if err != nil {
			t.warn("learned state of upstream %q: %v", k.name(), err)
		}
	}
	var failed []error // of traces and of Claude Code's logs
	var unread error   // of event logs, of which t.problem has printed why
	var logs []string
	for _, name := range f.files {
		if replay.IsTrace(name) {
			calls, err := replay.ReadFile(name)
			t.add(calls)
			failed = append(failed, err)
		} else {
			logs = append(logs, name)
		}
	}
	if len(f.files)+len(f.logs) == 0 {
		folder := t.dir.Path(eventsFolder)
		files, _ := record.Files(folder) // an unreadable folder counts as empty
		if len(files) > 0 {
			logs = []string{folder}
		} else {
			t.note(`no event logs in %s: while [telemetry] events is "on", using the proxy writes them; --claude-logs reads those of Claude Code`, folder)
		}
	}
	if len(logs) > 0 {
		unread = record.Read(ctx, logs, func(e *record.Event) {
			if e.Kind == record.Call {
				t.calls++
			}
			t.tuner.AddEvent(e)
		}, t.problem)
	}
	for _, dir := range f.logs {
		failed = append(failed, t.readLogs(ctx, dir))
	}
	if ctx.Err() != nil || t.calls == 0 {
		return cmp.Or(ctx.Err(), errors.Join(append(failed, unread)...))
	}
	for _, err := range failed {
		if err != nil {
			t.warn("%v", err)
		}
	}
	return nil
}

func (t *tuning) add(calls []replay.Call) {
	t.calls += len(calls)
	t.tuner.AddCalls(calls)
}

// readLogs reads Claude Code's session logs.
func (t *tuning) readLogs(ctx context.Context, dir string) error {
	l := tune.ClaudeLogs{Each: t.add, Bad: t.problem, UpstreamOf: func(tool string) string {
		k, _, _ := findTool(t.upstreams, tool) // without a name if there is none, or several
		return k.name()
	}}
	for _, k := range t.upstreams {
		l.Upstreams = append(l.Upstreams, k.name())
	}
	return l.Read(ctx, dir)
}

// upstream returns the configured upstream with that name.
func (t *tuning) upstream(name string) (k lastKnown, known bool) {
	i := slices.IndexFunc(t.upstreams, func(k lastKnown) bool { return k.name() == name })
	if i < 0 {
		return lastKnown{Upstream: catalog.Upstream{Model: valuemodel.Upstream{Name: name}}}, false
	}
	return t.upstreams[i], true
}

// maxAge returns the maximum age of a prefetched answer of an upstream.
func (t *tuning) maxAge(upstream string) time.Duration {
	k, _ := t.upstream(upstream)
	return t.config.Enrichment.Age(k.Exclusive || upstream == "") // as recordedTools
}

// tool returns the current model of a tool. A tool of a trace has no upstream, and is resolved as
// replay does.
func (t *tuning) tool(tool string) catalog.SurveyedTool {
	owner, name, ok := strings.Cut(tool, "/")
	if !ok {
		return catalog.SurveyedTool{Model: t.models.Resolve(recordedTools(), tool, valuemodel.Hints{})}
	}
	k, _ := t.upstream(owner)
	u, hints := catalog.WithServerClaims(k.Model, k.offer, name)
	return catalog.SurveyedTool{Model: t.models.Resolve(u, name, hints), Hints: hints}
}

// missing reports whether no configured upstream has the tool, as far as is known. A tool of a trace
// is never missing.
func (t *tuning) missing(tool string) bool {
	owner, name, ok := strings.Cut(tool, "/")
	k, known := t.upstream(owner)
	return ok && (!known || len(k.tools()) > 0 && !k.has(name))
}

// classes returns commented lines that classify unclassified tools. Until a tool is classified, it
// is never prefetched, and little else is worth proposing. Those of a server with variables that are
// not set here are left out, as what it says of them is not known.
func (t *tuning) classes(tools []string) string {
	tools = slices.DeleteFunc(tools, func(tool string) bool {
		owner, _, _ := strings.Cut(tool, "/")
		k, _ := t.upstream(owner)
		return k.Spec.Unusable != nil
	})
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Unclassified tools: %d. Each call of one counts as a write, and none is\n# prefetched. Check these lines before you uncomment them:\n", len(tools))
	for _, tool := range tools {
		for line := range strings.Lines(suggestion(t.config, tool, t.tool(tool))) {
			b.WriteString("# " + strings.TrimLeft(line, "# "))
		}
	}
	return b.String()
}

// backupEnding is the suffix of the copy of tuned.toml from before the last --write, which is empty if
// there was no file.
const backupEnding = ".bak"

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
	if _, err := stdout.Write(diff.Diff(path, file.Text, path+" (proposed)", text)); err != nil || !write {
		return err
	}
	backup, err := state.OpenFile(path + backupEnding)
	if err == nil {
		err = backup.Write(file.Text) // whole or not at all: --undo takes an empty one for no file
	}
	if err == nil {
		err = file.Write(text)
	}
	if err == nil {
		say(t.stderr, "wrote %s", path)
	}
	return err
}

// undoTuned restores tuned.toml from its backup, or removes it if that is empty.
func undoTuned(path string, stderr io.Writer) error {
	before, err := os.ReadFile(path + backupEnding)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: nothing to undo", path)
	}
	if err != nil {
		return err
	}
	file, err := state.OpenFile(path)
	if err == nil {
		err = file.Write(before)
	}
	done := "restored"
	if err == nil && len(before) == 0 {
		done, err = "removed", os.Remove(path)
	}
	if err == nil {
		err = os.Remove(path + backupEnding)
	}
	if err == nil {
		say(stderr, "%s %s", done, path)
	}
	return err
}
