package dedup

// Peek returns the answer that would be served to q now, without serving it: it
// counts as neither asked for nor used. False if there is none. It is not to be
// changed.
func (s *Store) Peek(q Query) (body []byte, ok bool) {
	if q.Use.File != "" || q.Use.Trial {
		return nil, false // it would have to be looked at, or compared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.answers.entries.Peek(q.Key)
	if !ok {
		return nil, false
	}
	if serves, backedOff, _ := s.weighLocked(&q, e, true, s.clock()); !serves || backedOff {
		return nil, false
	}
	return e.body, true
}

// Show notes that the client of q has been shown that answer beside another one, in
// part or in another form: it is not fetched ahead again, and asked for it is given
// in full.
func (s *Store) Show(q Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.answers.entries.Peek(q.Key); ok {
		q.Delivered.given(&s.epochs, &q, e, false, s.clock())
		q.Delivered.Referenced(q.Key)
	}
}
