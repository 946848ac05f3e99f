package predict

import "iter"

// rows are the arguments of a follow-up's calls: for each call the JSON of each
// argument, in the order of the list that drives it; nil for a call that cannot be
// made, as a value is missing or not alone. of is how long that list is.
//
// Of several arguments that may each be many things, the one that leads through
// the most lists drives; of equals the first by name. Of the others is taken what
// stands nearest to it, in the same element, if that is one thing.
func (e *edge) rows(in *source) (rows iter.Seq[[][]byte], of int) {
	lists, driver, ok := e.lists(in)
	drivers := []value{{}}
	if driver >= 0 {
		drivers = lists[driver].values
	}
	if !ok {
		return func(yield func([][]byte) bool) { yield(nil) }, 0
	}
	return func(yield func([][]byte) bool) {
		for _, v := range drivers {
			if !yield(e.row(lists, driver, v)) {
				return
			}
		}
	}, len(drivers)
}

// lists are what each argument may be, and which of them drives; -1 if each is one
// thing. It is false if one may be nothing.
func (e *edge) lists(in *source) (lists []list, driver int, ok bool) {
	lists, driver = make([]list, len(e.args)), -1
	for i := range e.args {
		a := &e.args[i]
		if a.fixed != nil {
			lists[i].values = []value{{raw: a.fixed}}
			continue
		}
		lists[i] = in.list(a)
		if len(lists[i].values) == 0 {
			return nil, -1, false
		}
		if a.fans > 0 && (driver < 0 || a.fans > e.args[driver].fans) {
			driver = i
		}
	}
	return lists, driver, true
}

// row puts the arguments of one call together around a value of the driver; nil if
// one of them is missing.
func (e *edge) row(lists []list, driver int, v value) [][]byte {
	row := make([][]byte, len(lists))
	for i := range lists {
		switch a := &e.args[i]; {
		case i == driver:
			row[i] = v.raw
		case a.fans == 0:
			row[i] = lists[i].values[0].raw
		case a.binding.From != e.args[driver].binding.From:
			row[i] = lists[i].beside(nil)
		default:
			row[i] = lists[i].beside(v.way)
		}
		if row[i] == nil {
			return nil
		}
	}
	return row
}

// beside is the one value that stands nearest to a way; nil if there is none or
// several different ones do.
func (l *list) beside(way []hop) []byte {
	var near []byte
	shared, one, last := -1, false, 0
	for i := range l.values {
		v := &l.values[i]
		switch n, apart := together(way, v.way); {
		case apart || n < shared:
		case n > shared:
			near, shared, one, last = v.raw, n, true, i
		default:
			one, last = one && string(near) == string(v.raw), i
		}
	}
	if !one || l.cut && last == len(l.values)-1 {
		return nil
	}
	return near
}

// together says how long two ways are the same, and whether they then part where
// both bindings left open which way to go: then they are of two elements.
func together(a, b []hop) (shared int, apart bool) {
	for shared < len(a) && shared < len(b) && a[shared].child == b[shared].child {
		shared++
	}
	if shared == len(a) || shared == len(b) {
		return shared, false
	}
	return shared, a[shared].open && b[shared].open
}
