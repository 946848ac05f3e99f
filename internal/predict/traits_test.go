package predict_test

import (
	"fmt"
	"strings"
	"testing"
)

// If sessions read those elements of lists that have a certain type, the others are less likely, whatever
// their order.
func TestElementsAreToldApartByType(t *testing.T) {
	for name, list := range map[string]func(kind, id string) string{
		"JSON":    func(kind, id string) string { return fmt.Sprintf(`{"type":%q,"path":%q}`, kind, id) },
		"boolean": func(kind, id string) string { return fmt.Sprintf(`{"path":%q,"leaf":%t}`, id, kind == "file") },
		"listing": func(kind, id string) string { return "[" + strings.ToUpper(kind) + "] " + id },
	} {
		t.Run(name, func(t *testing.T) {
			m := model()
			// begin lists six entries, of which those whose bit in files is set are files.
			begin := func(i, files int) *historyPlayer {
				p := begin(t, m)
				var entries []string
				for k := range 6 {
					kind := "dir"
					if files>>k&1 == 1 {
						kind = "file"
					}
					entries = append(entries, list(kind, fmt.Sprintf("n%d-%d", i, k)))
				}
				result := strings.Join(entries, "\n")
				if name != "listing" {
					result = "[" + strings.Join(entries, ",") + "]"
				}
				p.call("search", fmt.Sprintf(`{"n":%d}`, i), result)
				return p
			}
			read := func(i, k int) string { return fmt.Sprintf(`{"id":"n%d-%d"}`, i, k) }
			for i := range 60 {
				files := 1 + (i*7)%62 // neither none nor all
				p := begin(i, files)
				p.s.Candidates(p.now)
				for k := range 6 {
					if files>>k&1 == 1 {
						p.call("read", read(i, k), "x")
					}
				}
				p.s.End()
			}
			const files = 0b011010
			p := begin(1000, files)
			least, most := 1.0, 0.0
			for k := range 6 {
				if likely := p.find("read", read(1000, k)).P; files>>k&1 == 1 {
					least = min(least, likely)
				} else {
					most = max(most, likely)
				}
			}
			if least < 0.5 || least < 3*most {
				t.Errorf("got P %.2f of a file at least, %.2f of a directory at most; want 0.5 at least, and three times as much", least, most)
			}
		})
	}
}
