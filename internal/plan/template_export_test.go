package plan

// What the tests of references look at, where nothing is known of any plan.
func ParseTemplate(raw []byte, at string) (*Template, Defects) { return parseTemplate(raw, at, nil) }

func ParseRef(raw []byte, at string) (*Ref, Defects) { return parseRef(raw, at, nil) }

func ParseCondition(raw []byte, at string) (*Condition, Defects) { return parseCondition(raw, at, nil) }

var ResolveRef = resolveRef

// CompareNumbers is -1, 0 or 1; false if one of the two is out of all proportion.
func CompareNumbers(a, b string) (int, bool) {
	x, ok := parseDecimal([]byte(a))
	y, too := parseDecimal([]byte(b))
	if !ok || !too {
		return 0, false
	}
	return x.compare(y), true
}

// WholeNumber says whether a number is one.
func WholeNumber(a string) bool {
	d, ok := parseDecimal([]byte(a))
	return ok && d.whole()
}
