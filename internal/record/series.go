package record

import (
	"cmp"
	"maps"
	"slices"
)

// series are sums over time, by when their span began: of 10 seconds for the last half hour,
// of a minute for the last six hours, of an hour for the last thirty days.
//
// A call counts when it began, a prefetch when its fetch had ended.
type series map[int64]Point

const (
	minute     = 60 * second
	hour       = 60 * minute
	mostPoints = 1 << 14 // before older ones are put together
)

// add counts what is in p at a time; 0: not known, so it counts nowhere.
func (s *series) add(at int64, p Point) {
	if at <= 0 {
		return
	}
	p.AtUS, p.SpanS = at/(10*second)*(10*second), 10
	if len(*s) >= mostPoints {
		*s = s.upTo(at)
	}
	s.put(p)
}

// put adds a point to the one that begins with it.
func (s *series) put(p Point) {
	sum, known := (*s)[p.AtUS]
	if !known || sum.SpanS < p.SpanS {
		sum.AtUS, sum.SpanS = p.AtUS, p.SpanS
	}
	sum.Calls += p.Calls
	sum.Reads += p.Reads
	sum.Issued += p.Issued
	sum.Used += p.Used
	sum.Served += p.Served
	sum.HiddenMS += p.HiddenMS
	sum.WaitedMS += p.WaitedMS
	(*s)[p.AtUS] = sum
}

// upTo are the series as they are kept at a time: the short spans from the beginning of a
// minute on, those of a minute from the beginning of an hour on. What is later than that time
// may be of a clock that was wrong, and is kept.
func (s *series) upTo(now int64) series {
	tens, minutes := (now-30*minute)/minute*minute, (now-6*hour)/hour*hour
	kept := make(series)
	for _, p := range *s {
		span := int64(p.SpanS) * second
		if p.AtUS < minutes {
			span = hour
		} else if p.AtUS < tens {
			span = minute
		}
		if p.AtUS, p.SpanS = p.AtUS/span*span, int(span/second); p.AtUS >= now-30*24*hour {
			kept.put(p)
		}
	}
	return kept
}

// points are the spans up to now, oldest first.
func (s *series) points(now int64) []Point {
	all := slices.Collect(maps.Values(s.upTo(now)))
	all = slices.DeleteFunc(all, func(p Point) bool { return p.AtUS > now })
	slices.SortFunc(all, func(a, b Point) int { return cmp.Compare(a.AtUS, b.AtUS) })
	return append([]Point{}, all...)
}
