package record

import "reflect"

// Add adds the figures of another replica, which has counted other events. The longer uptime
// is kept.
func (s *Stats) Add(other *Stats) {
	s.UptimeS = max(s.UptimeS, other.UptimeS)
	s.Processes, s.Sessions, s.Open = s.Processes+other.Processes, s.Sessions+other.Sessions, s.Open+other.Open
	s.Replicas = append(s.Replicas, other.Replicas...)
	addFields(reflect.ValueOf(&s.Totals).Elem(), reflect.ValueOf(&other.Totals).Elem())
	addParts(&s.Upstreams, other.Upstreams)
	addParts(&s.Tools, other.Tools)
	s.SetRunning(append(s.Running, other.Running...))
	s.Derive()
}

// addParts adds parts by name.
func addParts(to *map[string]Part, more map[string]Part) {
	if *to == nil {
		*to = make(map[string]Part)
	}
	for name, part := range more {
		sum := (*to)[name]
		addFields(reflect.ValueOf(&sum).Elem(), reflect.ValueOf(&part).Elem())
		sum.derive()
		(*to)[name] = sum
	}
}

// addFields adds numbers field by field. The caller must derive ratios again.
func addFields(to, more reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		if q, ok := to.Addr().Interface().(*Quantiles); ok {
			q.add(more.Interface().(Quantiles))
			return
		}
		for i := range to.NumField() {
			addFields(to.Field(i), more.Field(i))
		}
	case reflect.Int, reflect.Int64:
		to.SetInt(to.Int() + more.Int())
	case reflect.Float64:
		to.SetFloat(to.Float() + more.Float())
	case reflect.Map: // of numbers
		sums := reflect.MakeMap(to.Type())
		for _, m := range []reflect.Value{to, more} {
			for iter := m.MapRange(); iter.Next(); {
				sum := reflect.New(to.Type().Elem()).Elem()
				if before := sums.MapIndex(iter.Key()); before.IsValid() {
					sum.Set(before)
				}
				addFields(sum, iter.Value())
				sums.SetMapIndex(iter.Key(), sum)
			}
		}
		to.Set(sums)
	}
}

// add merges quantiles without their values: each becomes the mean of both, weighted by the
// number of values.
func (q *Quantiles) add(more Quantiles) {
	n := q.N + more.N
	mean := func(a, b float64) float64 {
		if n == 0 {
			return 0
		}
		return (a*float64(q.N) + b*float64(more.N)) / float64(n)
	}
	*q = Quantiles{
		N: n, Sum: q.Sum + more.Sum, Max: max(q.Max, more.Max),
		P50: mean(q.P50, more.P50), P90: mean(q.P90, more.P90), P99: mean(q.P99, more.P99),
	}
}
