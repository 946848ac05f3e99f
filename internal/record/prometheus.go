package record

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Prometheus reads the figures once for each scrape, and counts nothing itself. What is
// counted by tool has no total of its own: sum() makes it. Quotients and quantiles of the
// whole time are left out: they are made of what is here, for any span of time.

const (
	prefix      = "mcpschedd_" // of the name of every family of ours
	contentType = "text/plain; version=0.0.4; charset=utf-8"
	atOnce      = 4 // scrapes that are answered at the same time; more get 503
)

// Metrics serves the figures, and some of the process, as text in the format of
// Prometheus.
func Metrics(stats func() Stats, latencies func() map[string]Histogram, version string) http.Handler {
	free := make(chan struct{}, atOnce)
	began := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		default:
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
		var b strings.Builder
		s := stats()
		for _, f := range families(&s, version) {
			writeFamily(&b, prefix+f.name, f)
		}
		writeLatencies(&b, latencies())
		for _, f := range processFamilies(began) {
			writeFamily(&b, f.name, f)
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, b.String()) // an error is the client's, which has gone
	})
}

// writeFamily writes a family and its samples.
func writeFamily(b *strings.Builder, name string, f *family) {
	kind := "gauge"
	if f.counter() {
		kind = "counter"
	}
	writeHead(b, name, f.help, kind)
	for _, s := range f.samples {
		writeSample(b, name, s.labels, s.value)
	}
}

func writeHead(b *strings.Builder, name, help, kind string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), name, kind)
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func writeSample(b *strings.Builder, name string, labels []label, value float64) {
	b.WriteString(name)
	for i, l := range labels {
		fmt.Fprintf(b, `%c%s="%s"`, "{,"[min(i, 1)], l.name, escapeLabel.Replace(strings.ToValidUTF8(l.value, "\uFFFD")))
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	fmt.Fprintf(b, " %s\n", number64(value))
}

func number64(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// writeLatencies writes how long calls took, by tool.
func writeLatencies(b *strings.Builder, tools map[string]Histogram) {
	const name = prefix + "call_duration_seconds"
	writeHead(b, name, "How long calls took, from their arrival to their answer.", "histogram")
	for _, key := range slices.Sorted(maps.Keys(tools)) {
		h, labels := tools[key], toolLabels(key)
		for i, bound := range bounds {
			writeSample(b, name+"_bucket", append(labels[:2:2], label{"le", number64(bound / 1000)}), float64(h.Counts[i]))
		}
		writeSample(b, name+"_bucket", append(labels[:2:2], label{"le", "+Inf"}), float64(h.Count))
		writeSample(b, name+"_sum", labels, h.Sum/1000)
		writeSample(b, name+"_count", labels, float64(h.Count))
	}
}

// processFamilies are what Prometheus' own client shows of a process, as far as dashboards
// commonly use it.
func processFamilies(began time.Time) []*family {
	read := []metrics.Sample{{Name: "/sched/goroutines:goroutines"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(read)
	one := func(name, help string, value float64) *family {
		return &family{name: name, help: help, samples: []sample{{nil, value}}}
	}
	all := []*family{
		one("go_goroutines", "Goroutines at the moment.", float64(read[0].Value.Uint64())),
		one("go_memstats_heap_alloc_bytes", "Bytes of heap objects.", float64(read[1].Value.Uint64())),
		one("go_memstats_sys_bytes", "Bytes that the Go runtime has from the system.", float64(read[2].Value.Uint64())),
		one("process_start_time_seconds", "When the process began, in seconds since 1970.", float64(began.UnixMilli())/1000),
	}
	if resident, err := os.ReadFile("/proc/self/statm"); err == nil { // on Linux
		if fields := strings.Fields(string(resident)); len(fields) > 1 {
			pages, _ := strconv.ParseFloat(fields[1], 64)
			all = append(all, one("process_resident_memory_bytes", "Resident memory.", pages*float64(os.Getpagesize())))
		}
	}
	return all
}
