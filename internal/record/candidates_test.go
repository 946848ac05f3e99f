package record_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mcpschedd/internal/record"
)

// Candidates of one tool are recorded with the names of the arguments in which they differ. Values
// are added only if arguments are recorded in full, and never secrets.
func TestDiffers(t *testing.T) {
	for _, c := range []struct {
		full bool
		want []string
	}{
		{false, []string{"rev", "rev", "", ""}},
		{true, []string{`rev = "a1"`, `rev = "***"`, "", ""}},
	} {
		var got []string
		log := record.Open(record.Options{Full: c.full, Scrub: func(text []byte) []byte {
			if string(text) == `{"repo":"r","rev":"secret"}` {
				return []byte(`{"repo":"r","rev":"***"}`)
			}
			return text
		}, OnEvent: func(e record.Event) {
			for _, d := range e.Top {
				got = append(got, d.Differs)
				if d.RawArguments != nil {
					t.Error("the arguments are not cut off")
				}
			}
		}})
		top := []record.Candidate{
			{Tool: "git/show", RawArguments: []byte(`{"repo":"r","rev":"a1"}`)}, {Tool: "git/show", RawArguments: []byte(`{"repo":"r","rev":"secret"}`)},
			{Tool: "git/log", RawArguments: []byte(`{"repo":"r"}`)}, {Tool: "git/status"},
		}
		log.Add(record.Event{Kind: record.Decision, Top: top})
		log.Close()
		if diff := gocmp.Diff(c.want, got); diff != "" {
			t.Errorf("in full %v: want (-), got (+):\n%s", c.full, diff)
		}
		if len(top[0].RawArguments) == 0 {
			t.Error("the caller's candidates were changed")
		}
	}
}
