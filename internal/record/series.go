package record

// series are sums over time: of 10 seconds for the last half hour, of a minute for the
// last six hours, of an hour for the last thirty days. Each length has its own ring
// and every event is added to all three.
//
// A call and a harm count when they began, a prefetch when its fetch had ended.
type series [3]track

// track holds the sums of spans, each in the place that its number says.
type track struct {
	span  int64 // seconds
	spans []Point
}

func newSeries() series {
	return series{
		{3600, make([]Point, 30*24+1)},
		{60, make([]Point, 7*60+1)}, // one hour more than are shown, which begin with a whole hour
		{10, make([]Point, 31*6+1)},
	}
}

// add counts what is in p at a time; 0: not known, so it counts nowhere.
func (s *series) add(at int64, p Point) {
	if at <= 0 {
		return
	}
	for i := range s {
		s[i].add(at, &p)
	}
}

func (r *track) add(at int64, p *Point) {
	n := at / second / r.span
	kept := &r.spans[n%int64(len(r.spans))]
	switch begin := n * r.span * second; {
	case begin < kept.AtUS:
		return // longer ago than is kept
	case begin > kept.AtUS:
		*kept = Point{AtUS: begin, SpanS: int(r.span)}
	}
	kept.Calls += p.Calls
	kept.Reads += p.Reads
	kept.Issued += p.Issued
	kept.Used += p.Used
	kept.Wasted += p.Wasted
	kept.Served += p.Served
	kept.HiddenMS += p.HiddenMS
	kept.WaitedMS += p.WaitedMS
	kept.HarmMS += p.HarmMS
}

// points are the spans up to now, oldest first: the short ones from the beginning of
// a minute on, those of a minute from the beginning of an hour on.
func (s *series) points(now int64) []Point {
	const minute, hour = 60 * second, 3600 * second
	tens := (now - 30*minute) / minute * minute
	minutes := (now - 6*hour) / hour * hour
	from := [3]int64{now - 30*24*hour, minutes, tens}
	to := [3]int64{minutes, tens, now + 1}
	points := []Point{}
	for i := range s {
		points = append(points, s[i].between(from[i], to[i])...)
	}
	return points
}

// between are the spans that begin in a time, which is not longer than the ring.
func (r *track) between(from, to int64) []Point {
	var points []Point
	length := r.span * second
	for n := (max(from, 1) + length - 1) / length; n*length < to; n++ {
		if p := r.spans[n%int64(len(r.spans))]; p.AtUS == n*length {
			points = append(points, p)
		}
	}
	return points
}
