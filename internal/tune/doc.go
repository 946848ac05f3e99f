// Package tune works out, from calls that were recorded, what the configuration should
// say of the tools.
//
// The one idea: nothing is proposed that was not tried on what was recorded. A
// follow-up is read off two thirds of the sessions; how often it would have been right
// is counted on the others, by the code that makes its calls live, and by the rules
// that decide there whether an answer still stands when it is asked for.
//
//	m := tune.New(tune.Options{Model: model})
//	err := events.Read(ctx, files, m.Event, problem)
//	m.Trace("sessions.jsonl.gz", calls)
//	for _, b := range m.Layer().Blocks { … }
//
// Each line comes with what it rests on: how many, how often, over which period. What
// the configuration says already is not proposed again, so that nothing is proposed
// once the layer has been written. What could make an answer wrong if the record
// misleads (how long an answer stays the same, whether guesses are made at all) is
// advice, and never a setting.
//
// It leaves out what the settings do (config, valuemodel), and never asks a tool anything.
package tune
