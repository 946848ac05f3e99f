package proxy

import "time"

// Keeping is a store of results, for tests of its bounds.
type Keeping struct {
	kept     *kept
	sessions map[string]*session
}

// NewKeeping returns an empty store.
func NewKeeping() *Keeping { return &Keeping{new(kept), make(map[string]*session)} }

func (k *Keeping) session(name string) *session {
	if k.sessions[name] == nil {
		k.sessions[name] = new(session)
	}
	return k.sessions[name]
}

// Add keeps that many bytes for a session.
func (k *Keeping) Add(session string, size int, now time.Time, span time.Duration) (handle string) {
	return k.kept.add(k.session(session), "a test", make([]byte, size), now, span)
}

// Has reports whether a session finds a handle.
func (k *Keeping) Has(session, handle string, now time.Time) bool {
	return k.kept.find(k.session(session), handle, now) != nil
}

// List returns the list that a session sees.
func (k *Keeping) List(session string, now time.Time) string {
	return k.kept.list(k.session(session), now)
}

// Drop ends a session.
func (k *Keeping) Drop(session string) { k.kept.drop(k.session(session)) }

// Bytes returns the size of what is kept.
func (k *Keeping) Bytes() (n int) {
	for _, r := range k.kept.all {
		n += r.bytes()
	}
	return n
}

// Results returns how many results the server keeps.
func Results(s *Server) int {
	s.kept.mu.Lock()
	defer s.kept.mu.Unlock()
	return len(s.kept.all)
}
