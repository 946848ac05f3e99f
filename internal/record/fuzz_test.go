package record_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"mcpschedd/internal/record"
)

// FuzzAdd adds arbitrary events. The figures must match the schema, and the sum of the
// dispositions must be the number of calls.
func FuzzAdd(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"call","session":"a","upstream":"u","tool":"t","disposition":"hit","use_of":2,"hidden_ms":1e308,"bytes":9223372036854775807,"tokens":1,"seq":1}`,
		`{"kind":"prefetch","session":"a","upstream":"u","tool":"t","fate":"used","used_by_seq":1,"seq":2,"sent":-9223372036854775808}`,
		`{"kind":"choice","session":"a","declined":{"gate":9223372036854775807},"top":[{"tool":"t","p":-1}]}`,
		`{"kind":"plan","session":"a","depth":-9223372036854775808,"bytes_in":-9223372036854775808,"bytes_out":9223372036854775807}`,
		`{"kind":"state","hosts":[{"host":"h","level":-5,"rate":-1,"tokens":1e308,"in_flight":-1}]} {"kind":"end"}`,
		`{"kind":"call","session":"a","upstream":"u","tool":"t","disposition":"joined","seq":9223372036854775807,"turn":-1,"latency_ms":1e308}`,
	} {
		f.Add([]byte(seed), int64(1_777_000_000_000_000))
		f.Add([]byte(seed), int64(-62_000_000_000_000_000))
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, text []byte, at int64) {
		at %= 200_000_000_000_000_000 // JSON has no times beyond the year 9999
		tally := record.NewTally()
		for dec := json.NewDecoder(bytes.NewReader(text)); ; {
			var e record.Event
			if dec.Decode(&e) != nil {
				break
			}
			e.At = time.UnixMicro(at)
			e.Process = e.Host
			record.Clamp(&e)
			for range 3 { // sums could overflow
				tally.Add(&e)
				at += at / 70
			}
		}
		s := tally.Stats(time.UnixMicro(at))
		if err := schema.Validate(asJSON(t, s)); err != nil {
			t.Error(err)
		}
		asJSON(t, tally.View(time.Time{}))
		if f := s.Totals; f.Calls != f.Hit+f.Joined+f.Fetched+f.Failed || f.HiddenByPrefetch > f.HiddenMS {
			t.Errorf("got %+v", f)
		}
		_ = (&record.View{Stats: s}).Text(true)
		s.WriteCSV(io.Discard)
	})
}
