package dedup_test

import (
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"

	"pgregory.net/rapid"
)

// op is one event of a history.
type op struct {
	what  string
	pause time.Duration // time since the previous event began

	// For a read or a prefetch.
	key    int           // index in keys
	scope  string        // in scopes
	use    int           // index in modelUses
	cancel time.Duration // time after which the call leaves; 0 if it does not
	good   bool          // the answer may be shared
	trial  bool          // the call is compared with a prefetch, and not served it
	asks   bool          // the server asks the client a question during the call
	size   int           // bytes of padding in the answer

	// Of a fetch: time until the server reads its state, and then until it answers. Of a change:
	// time until it lands, and then until its outcome is known.
	before, after time.Duration
	places        []int         // of a change: indexes in modelPlaces
	doubt         time.Duration // time until the outcome is in doubt
	late          bool          // the outcome becomes known after that
	shows         time.Duration // of a remote write: time from its end until it shows; 0 if it is not remote
}

func (o op) GoString() string { return fmt.Sprintf("%+v", o) }

// modelPlaces are the places of the model.
var modelPlaces = []call.Place{host, local, edge, slot(8)}

// keys are the places that each call depends on, as indexes in modelPlaces.
var keys = [][]int{{0}, {1}, {0, 1}, {2}, {0, 2}, {1, 2, 3}}

// modelUses are the reuse rules of the calls.
var modelUses = []dedup.Reuse{
	{MaxAge: 300 * time.Millisecond},
	{Freshness: 200 * time.Millisecond},
	{Pure: true},
	{MaxAge: 300 * time.Millisecond, Repeats: 2, BackOff: true},
	{Freshness: 200 * time.Millisecond, Volatile: true},
}

const (
	modelWriteSettle = 500 * time.Millisecond
	modelSettle      = 30 * time.Millisecond
)

// whats are the kinds of events, repeated by weight. Events that keep a write pending for long are
// rare, as nothing is served while it is pending.
var whats = slices.Concat(
	slices.Repeat([]string{"read"}, 30), slices.Repeat([]string{"prefetch"}, 10), slices.Repeat([]string{"write"}, 5),
	[]string{"doubt", "misjudged", "elsewhere", "drop", "resize", "question"},
)

// scopes are two sessions and the shared scope.
var scopes = []string{"a", "a", "a", "b", "*"}

func drawOp(t *rapid.T) op {
	ms := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Millisecond
	}
	o := op{what: rapid.SampledFrom(whats).Draw(t, "what")}
	if rapid.Bool().Draw(t, "later") {
		o.pause = ms("pause", 40)
	}
	switch o.what {
	case "read", "prefetch":
		o.key = rapid.IntRange(0, len(keys)-1).Draw(t, "key")
		o.scope = rapid.SampledFrom(scopes).Draw(t, "scope")
		o.use = o.key % len(modelUses) // rules of a tool are constant
		o.before, o.after = ms("before", 40), ms("after", 40)
		o.good = rapid.IntRange(0, 9).Draw(t, "good") > 0
		o.asks = rapid.IntRange(0, 9).Draw(t, "asks") == 0
		o.trial = rapid.IntRange(0, 3).Draw(t, "trial") == 0
		o.size = rapid.IntRange(0, 3000).Draw(t, "size")
		if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
			o.cancel = 1 + ms("cancel", 60)
		}
	case "write", "doubt", "misjudged":
		o.places = rapid.SliceOfNDistinct(rapid.IntRange(0, len(modelPlaces)-1), 1, 2, rapid.ID).Draw(t, "places")
		o.before, o.after = ms("before", 60), ms("after", 60)
		o.doubt = ms("doubt", 60)
		o.late = rapid.Bool().Draw(t, "late")
		if o.what == "write" && rapid.IntRange(0, 3).Draw(t, "remote") == 0 {
			o.shows = 1 + ms("shows", 29)
		}
	case "elsewhere":
		o.places = []int{rapid.IntRange(0, len(modelPlaces)-1).Draw(t, "place")}
	case "drop":
		o.scope = rapid.SampledFrom(scopes).Draw(t, "scope")
	case "resize":
		o.size = rapid.IntRange(0, 100_000).Draw(t, "size")
	}
	return o
}
