package record

import (
	"maps"
	"slices"
)

// series holds sums by minute; the key is the start of the minute. A call counts in the minute
// in which it started, a prefetch in the one in which its fetch ended.
type series map[int64]Point

const (
	pointSeconds = 60
	maxPoints    = 1440 // a day if something happens every minute; the newest are returned
)

// add adds p to the minute of a time. A time of 0 is not known, and p is dropped.
func (s series) add(at int64, p Point) {
	if at <= 0 {
		return
	}
	at -= at % (pointSeconds * second)
	if len(s) > 2*maxPoints {
		for _, old := range slices.Sorted(maps.Keys(s))[:maxPoints] {
			delete(s, old)
		}
	}
	sum := s[at]
	sum.AtUS, sum.SpanS = at, pointSeconds
	sum.Calls += p.Calls
	sum.Reads += p.Reads
	sum.Issued += p.Issued
	sum.Used += p.Used
	sum.Served += p.Served
	sum.HiddenMS += p.HiddenMS
	sum.WaitedMS += p.WaitedMS
	s[at] = sum
}

// points returns the minutes up to now, oldest first. Later ones may come from a wrong clock.
func (s series) points(now int64) []Point {
	points := []Point{}
	for _, at := range slices.Sorted(maps.Keys(s)) {
		if at <= now {
			points = append(points, s[at])
		}
	}
	return points[max(0, len(points)-maxPoints):]
}
