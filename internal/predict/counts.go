package predict

import (
	"encoding/json"
	"errors"
	"slices"
)

// sum is a number that several processes add to: what it is now, and what of it was
// in the state that was loaded or kept last. A merge adds the difference, so that
// what has decayed since then stays decayed.
type sum struct{ now, base float32 }

// plus adds to a stored number what another process did since it loaded it.
func (s *sum) plus(o sum) { *s = kept(max(0, s.now+o.now-o.base)) }

// kept is a number as it stands in a state.
func kept(n float32) sum { return sum{n, n} }

// MarshalJSON writes the number as it is now.
func (s sum) MarshalJSON() ([]byte, error) { return json.Marshal(s.now) }

// UnmarshalJSON reads a number, if it could have been counted.
func (s *sum) UnmarshalJSON(saved []byte) error {
	var n float32
	if err := json.Unmarshal(saved, &n); err != nil {
		return err
	}
	*s = kept(n)
	if !sound(n) {
		return errUnsound
	}
	return nil
}

var errUnsound = errors.New("state: a count that cannot be")

// sound reports whether counts are such as could have been counted.
func sound(counts ...float32) bool {
	return !slices.ContainsFunc(counts, func(c float32) bool { return !(c >= 0 && c < 1e9) })
}

// outcome is what came of candidates.
type outcome struct {
	Right sum `json:"y"`
	Of    sum `json:"n"`
}

// label counts one outcome, the older ones less.
func (o *outcome) label(hit bool) {
	o.Right.now *= remember
	o.Of.now = o.Of.now*remember + 1
	if hit {
		o.Right.now++
	}
}

func (o *outcome) plus(other *outcome) {
	o.Right.plus(other.Right)
	o.Of.plus(other.Of)
}
