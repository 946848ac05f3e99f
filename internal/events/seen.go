package events

// seen are names that were seen lately. A file that was put together may name any
// number of them.
type seen struct{ now, before map[string]bool }

// maxSeen is how many names are seen before the first of them are forgotten. Twice as
// many may be kept; one that is seen again and again stays.
const maxSeen = 4096

// first reports whether a name was not seen before.
func (s *seen) first(name string) bool {
	if s.now[name] {
		return false
	}
	known := s.before[name]
	if s.now == nil || len(s.now) >= maxSeen {
		s.now, s.before = map[string]bool{}, s.now
	}
	s.now[name] = true
	return !known
}
