package proxy

import "time"

// Keeping is what is kept of results, for tests of its bounds.
type Keeping struct {
	kept     *kept
	sessions map[string]*session
}

// NewKeeping keeps nothing yet.
func NewKeeping() *Keeping { return &Keeping{new(kept), make(map[string]*session)} }

func (k *Keeping) session(name string) *session {
	if k.sessions[name] == nil {
		k.sessions[name] = new(session)
	}
	return k.sessions[name]
}

// Add keeps so many bytes for a session.
func (k *Keeping) Add(session string, size int, now time.Time, span time.Duration) (handle string) {
	return k.kept.add(k.session(session), "a test", make([]byte, size), now, span)
}

// Has reports whether a session finds something by a handle.
func (k *Keeping) Has(session, handle string, now time.Time) bool {
	return k.kept.find(k.session(session), handle, now) != nil
}

// List is what a session is told that there is.
func (k *Keeping) List(session string, now time.Time) string {
	return k.kept.list(k.session(session), now)
}

// Drop ends a session.
func (k *Keeping) Drop(session string) { k.kept.drop(k.session(session)) }

// Bytes is how much is kept.
func (k *Keeping) Bytes() (n int) {
	for _, r := range k.kept.all {
		n += r.bytes()
	}
	return n
}

// Results is how many results the server keeps.
func Results(s *Server) int {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return len(s.kept.all)
}
