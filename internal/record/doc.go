// Package record logs calls, prefetches and decisions as events, and computes all statistics from
// them.
//
//	log := record.Open(record.Options{Dir: dir, Key: key, OnEvent: func(e record.Event) { tally.Add(&e) }})
//	log.Add(record.Event{Kind: record.Call, Session: "1f00c2", …})
//	s := tally.Stats(time.Now()) // of this process, until now
//	log.Close()
//
//	err := record.Read(ctx, files, tally.Add, tally.Problem)
//	s := tally.Stats(time.Time{}) // of recorded events, until the last one
//
// A process, in the names of files, in events and in figures, is one Log: a daemon has one for each
// workplace.
//
// The way of an event, with the files in parentheses:
//
//	[Event]     one line of the log (event, candidates)
//	[Log]       writes the events of a process to a folder (log, writer); its other files show that
//	            the process runs and what it does (files, lock, status)
//	[Read]      reads logs; a [Follower] reads on while they are written (read, view)
//	[Tally]     adds the events up (tally, totals, histogram)
//	[Stats]     are all figures (stats, metrics)
//	outputs     [View] for the dashboard and `mcpschedd stats` (view, report, warnings, glossary),
//	            Prometheus (prometheus) and OTLP (otlp, spans)
//
// There are three types of figures: [Figures] are counted for each tool, for each upstream and for
// all together; [Totals] are the Figures of all with those that belong to no single tool, such as
// plans; [Stats] has the Totals, the Figures by tool and upstream, and what is true only now, such as
// open sessions, which comes from the [Status] of each running process. Every other figure is a sum
// over events, computed by one Tally, whether the events come from the running proxy or from files.
//
// The tags of a figure's field are the only place that defines its names, meaning and outputs:
//
//	json  name in mcpschedd://stats and in `mcpschedd stats`, as text, JSON or CSV
//	jsonschema  description in the JSON Schema, Prometheus, OTLP and the dashboard
//	unit  ms, KiB or share; without it the figure is a count
//	prom  kind in Prometheus and OTLP (counter, gauge or histogram), where the name is made of
//	      the JSON name and the unit; for a map followed by the label that has its keys
//
// Quantities that cannot be observed are not counted, such as whether a model read an inlined
// answer, or how long a call would have taken that was never made.
package record
