package record

import (
	"maps"
	"slices"
)

// series are sums over time, by when their minute began.
//
// A call counts when it began, a prefetch when its fetch had ended.
type series map[int64]Point

const (
	spanS      = 60   // seconds
	mostPoints = 1440 // a day, if something happens each minute; the newest are shown
)

// add counts what is in p at a time; 0: not known, so it counts nowhere.
func (s series) add(at int64, p Point) {
	if at <= 0 {
		return
	}
	at -= at % (spanS * second)
	if len(s) > 2*mostPoints {
		for _, old := range slices.Sorted(maps.Keys(s))[:mostPoints] {
			delete(s, old)
		}
	}
	sum := s[at]
	sum.AtUS, sum.SpanS = at, spanS
	sum.Calls += p.Calls
	sum.Reads += p.Reads
	sum.Issued += p.Issued
	sum.Used += p.Used
	sum.Served += p.Served
	sum.HiddenMS += p.HiddenMS
	sum.WaitedMS += p.WaitedMS
	s[at] = sum
}

// points are the minutes up to now, oldest first. What is later may be of a clock that was
// wrong.
func (s series) points(now int64) []Point {
	points := []Point{}
	for _, at := range slices.Sorted(maps.Keys(s)) {
		if at <= now {
			points = append(points, s[at])
		}
	}
	return points[max(0, len(points)-mostPoints):]
}
