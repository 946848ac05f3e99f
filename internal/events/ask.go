package events

// Ask asks for the ends of all events that were added without one, so that those that
// have one by now come before what is added next.
func (l *Log) Ask() { l.ask(false) }
