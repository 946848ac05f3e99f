package telemetry_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"mcpschedd/internal/events"
	"mcpschedd/internal/telemetry"
)

// use is what a call and a prefetch say when the one is answered by the other.
func use(session string, call, prefetch int64) []events.Event {
	return []events.Event{
		{Kind: events.Call, Session: session, Seq: call, Disposition: events.Hit, Prefetched: true, UseOf: prefetch},
		{Kind: events.Prefetch, Session: session, Seq: prefetch, Fate: events.Used, UsedBy: call},
	}
}

func TestAudit(t *testing.T) {
	end := events.Event{Kind: events.End, Session: "s"}
	pair := use("s", 9, 4)
	call, prefetch := pair[0], pair[1]
	with := func(e events.Event, change func(*events.Event)) events.Event {
		change(&e)
		return e
	}
	abroad := with(prefetch, func(e *events.Event) { e.Session, e.BySession = "other", "s" })
	other := events.Event{Kind: events.Session, Session: "other"}
	tests := []struct {
		name string
		all  []events.Event
		want string // in the error; "": none
	}{
		{"nothing", nil, ""},
		{"the call's line first", []events.Event{call, prefetch, end}, ""},
		{"the prefetch's line first", []events.Event{prefetch, call, end}, ""},
		{"a call of another session", []events.Event{other, call, abroad, end}, ""},
		{"a second use is none", []events.Event{call, prefetch, with(call, func(e *events.Event) { e.Seq, e.UseOf = 10, 0 }), end}, ""},
		{"still under way", []events.Event{call}, ""},
		{"still under way, the other way round", []events.Event{prefetch}, ""},
		{"lines after the end", []events.Event{call, end, prefetch}, ""},
		{"no prefetch says so", []events.Event{call, end}, "call 9 says that it used prefetch 4, which says nothing of it"},
		{"no call says so", []events.Event{prefetch, end}, "prefetch 4 says that call 9 used it, which says nothing of it"},
		{"it was wasted", []events.Event{call, with(prefetch, func(e *events.Event) { e.Fate, e.UsedBy = events.Wasted, 0 }), end}, "call 9 says that it used prefetch 4"},
		{"it was another", []events.Event{call, with(prefetch, func(e *events.Event) { e.Seq = 5 }), end}, "one line says that it used prefetch 4, the other 5"},
		{"two first uses", []events.Event{call, prefetch, with(call, func(e *events.Event) { e.Seq = 10 }), end}, "call 10 says that it used prefetch 4"},
		{"two prefetches of one call", []events.Event{prefetch, with(prefetch, func(e *events.Event) { e.Seq = 5 }), call, end}, "call 9 is said twice to be the first use, of prefetch 4 and of 5"},
		{"two fates", []events.Event{call, prefetch, with(prefetch, func(e *events.Event) { e.Fate, e.UsedBy = events.Wasted, 0 })}, "number 4 is that of two lines, the second of a prefetch"},
		{"two dispositions", []events.Event{call, call, prefetch}, "number 9 is that of two lines, the second of a call"},
		{"by whom is not said", []events.Event{with(prefetch, func(e *events.Event) { e.UsedBy = 0 })}, "prefetch 4 was used, and does not say by which call"},
		{"by a session nobody knows", []events.Event{with(abroad, func(e *events.Event) { e.BySession = "nobody" })}, "session nobody used it, of which nothing is known"},
		{"a call that fetched for itself", []events.Event{with(call, func(e *events.Event) { e.Disposition = events.Fetched }), prefetch, end}, "call 9 was fetched, and says that it is the first use of prefetch 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tallied(tt.all...).Audit()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// The lines of a session in any order: nothing is found, whatever the order; and one line
// that is lost or there twice is always found.
func TestAuditInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var all []events.Event
		for i := range int64(20) {
			all = append(all, use("s", 2*i+1, 2*i+2)...)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		end := events.Event{Kind: events.End, Session: "s"}
		if err := tallied(append(all, end)...).Audit(); err != nil {
			t.Fatal(err)
		}
		if err := tallied(append(all[1:len(all):len(all)], end)...).Audit(); err == nil {
			t.Fatal("a line is lost, and nothing is found")
		}
		if err := tallied(append([]events.Event{all[r.IntN(len(all))]}, append(all, end)...)...).Audit(); err == nil {
			t.Fatal("a line is there twice, and nothing is found")
		}
	}
}

// What a session had left to say is not forgotten with its row.
func TestAuditOfASessionThatWent(t *testing.T) {
	tally := telemetry.New(telemetry.Options{Sessions: 1})
	e := lively(use("a", 1, 2)[0], 0)
	tally.Add(&e)
	tally.Add(&events.Event{Kind: events.End, Session: "a"})
	tally.Add(&events.Event{Kind: events.Session, Session: "b"})
	if err := tally.Audit(); err == nil || !strings.Contains(err.Error(), "session a: call 1 says that it used prefetch 2") {
		t.Errorf("got %v", err)
	}
}

// Numbers are held against each other as far back as is said, however large they grow.
func TestAuditWindow(t *testing.T) {
	tally := telemetry.New(telemetry.Options{})
	add := func(seq int64) {
		tally.Add(&events.Event{Kind: events.Call, Session: "s", Upstream: "u", Tool: "t", Seq: seq, Disposition: events.Fetched})
	}
	for seq := int64(1); seq <= 200_000; seq++ {
		add(seq)
	}
	for _, seq := range []int64{1 << 40, 1<<62 + 5, 1<<63 - 1} {
		add(seq)
		if err := tally.Audit(); err != nil {
			t.Fatalf("after %d: %v", seq, err)
		}
	}
	add(1<<63 - 1)
	if err := tally.Audit(); err == nil {
		t.Error("the same number twice, and nothing is found")
	}
	tally = telemetry.New(telemetry.Options{})
	for seq := int64(1); seq <= 200_000; seq++ {
		add(seq)
	}
	add(200_000 - 65_400)
	if err := tally.Audit(); err == nil {
		t.Error("a number of 65,400 lines ago again, and nothing is found")
	}
}

// Claims that were answered, or went with their session, take no room.
func TestAuditForgets(t *testing.T) {
	tally := telemetry.New(telemetry.Options{Sessions: 5})
	add := func(e events.Event) {
		e.Upstream, e.Tool = "u", "t"
		tally.Add(&e)
	}
	for i := range int64(70_000) {
		for _, e := range use("s", 2*i+1, 2*i+2) {
			add(e)
		}
	}
	if err := tally.Audit(); err != nil {
		t.Fatal(err)
	}
	for i := range 70_000 {
		session := string(rune('\u4e00'+i%20_000)) + string(rune('a'+i/20_000))
		add(use(session, 1, 2)[0])
		add(events.Event{Kind: events.End, Session: session})
	}
	if err := tally.Audit(); err == nil || strings.Contains(err.Error(), "could not be checked") {
		t.Errorf("got %v", err)
	}
}

// However much is wrong, what is said of it stays short.
func TestAuditStaysShort(t *testing.T) {
	tally := telemetry.New(telemetry.Options{})
	for i := range int64(200_000) {
		tally.Add(&events.Event{Kind: events.Call, Session: "s", Upstream: "u", Tool: "t", Seq: i + 1, Disposition: events.Hit, UseOf: 500_000 + i})
	}
	tally.Add(&events.Event{Kind: events.End, Session: "s"})
	text := tally.Audit().Error()
	if n := strings.Count(text, "\n"); n != 21 || !strings.Contains(text, "and 65516 more") || !strings.Contains(text, "134464 uses of prefetches could not be checked") {
		t.Errorf("got %d lines: %s", n+1, text)
	}
}
