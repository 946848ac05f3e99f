// Package tune works out, from calls that were recorded, what the configuration should
// say of the tools.
//
// The one idea: nothing is proposed that was not tried on what was recorded. A
// follow-up is read off two thirds of the sessions, whatever their order; how often it
// would have been right is counted on these and on the others, by the code that makes
// its calls live, and by the rules that decide there whether an answer still stands
// when it is asked for. What is proposed is how often it is right at least: that which
// looks best among many has been lucky, too.
//
//	m := tune.New(tune.Options{Model: model})
//	err := events.Read(ctx, files, m.Event, problem)
//	m.Trace("sessions.jsonl.gz", calls)
//	for _, b := range m.Layer().Blocks { … }
//
// Each line comes with what it rests on: how many, how often, over which period. What
// the configuration says already is not proposed again, so that nothing is proposed
// once the layer has been written; and of what comes often without being proposed it is
// said why not. Errors are no answers: nothing is concluded from them. What could make
// an answer wrong if the record misleads (how long an answer stays the same, whether
// guesses are made at all) is advice, and never a setting.
//
// It leaves out what the settings do (config, valuemodel), and never asks a tool anything.
package tune
