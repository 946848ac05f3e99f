package excerpt

import "math"

const (
	// tightness is how much of its tokens an excerpt uses at least before no longer
	// one is looked for.
	tightness = 0.9

	// usualChars is of a token, to begin with.
	usualChars = 4

	// mostChars is more than a token of any text worth reading has: of what is longer
	// than its tokens times this, never more is counted.
	mostChars = 16
)

// most is how many characters of so many are ever asked for.
func (l Limit) most(size int) int {
	if l.Chars > 0 {
		size = min(size, l.Chars)
	}
	if l.Tokens > 0 {
		size = min(size, times(l.Tokens, mostChars))
	}
	return size
}

// fit finds how many characters to ask for. cut is called with one number after
// another, and last with the one that is taken; it may return anything shorter.
// size is that of the whole.
//
// Tokens are about proportional to characters, so the next number is where the
// last one's share leads, kept between the best that fits and the least that does
// not.
func (l Limit) fit(size int, cut func(room int) []byte) {
	most := l.most(size)
	if l.Tokens <= 0 {
		cut(most)
		return
	}
	fits, high := 0, most+1
	room := min(most, times(l.Tokens, usualChars))
	for {
		tokens := l.count(cut(room))
		if tokens <= l.Tokens {
			fits = room
		} else {
			high = room
		}
		if high-fits <= 1 || fits == room && float64(tokens) >= tightness*float64(l.Tokens) {
			break
		}
		guess := float64(room) * float64(l.Tokens) / float64(max(tokens, 1))
		if room = between(fits, high, guess); high > most && guess >= tightness*float64(most) {
			room = most
		}
	}
	cut(fits)
}

// between is a guess between two bounds, and far enough from both that a few of
// them bring the bounds together.
func between(low, high int, guess float64) int {
	margin := max((high-low)/16, 1)
	return int(max(min(guess*0.98, float64(high-margin)), float64(low+margin)))
}

// times is a product that stays far from overflow.
func times(n, by int) int { return min(n, math.MaxInt/(2*by)) * by }

func (l Limit) count(text []byte) int {
	if l.Count == nil {
		return len(text) / 4
	}
	return l.Count(text)
}
