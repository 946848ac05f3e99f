//go:build !lean

package record

import "time"

// WaitFor sets how long Close waits for the last export.
func (t *OTLP) WaitFor(d time.Duration) { t.timeout = d }
