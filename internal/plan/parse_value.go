package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
)

// noLimit is the upper bound of numbers without a limit.
const noLimit = math.MaxInt32

// Maximum timeouts of a call.
const (
	maxDuration = 24 * time.Hour
	maxNumeric  = time.Hour // for a timeout given as a number
)

// node is a JSON value in a plan. Its methods report a value of the wrong type as a defect and
// return the zero value for an absent or wrong one.
type node struct {
	place
	raw []byte // nil if absent
}

// members are the members of an object by name.
type members struct {
	place
	values map[string][]byte
}

// get returns a member. An absent member has the place of the object.
func (o members) get(name string) node {
	raw := o.values[name]
	if raw == nil {
		return node{place: o.place}
	}
	return node{o.below(name), raw}
}

func (v node) flag() bool {
	switch string(v.raw) {
	case "true":
		return true
	case "", "false":
		return false
	}
	v.errorf("want true or false, have %s", display(v.raw))
	return false
}

// integer parses an integer, which may be written as 5.0 or 1e3.
func (v node) integer(lo, hi int) int {
	if v.raw == nil {
		return 0
	}
	x, ok := number(v.raw)
	if !ok || x != math.Trunc(x) || x < float64(lo) || x > float64(hi) && hi < noLimit {
		v.errorf("want a whole number %s, have %s", between(lo, hi), display(v.raw))
		return lo
	}
	return int(min(x, noLimit))
}

func between(lo, hi int) string {
	if hi >= noLimit {
		return "of at least " + strconv.Itoa(lo)
	}
	return "from " + strconv.Itoa(lo) + " to " + strconv.Itoa(hi)
}

// float parses a number from 0 to limit.
func (v node) float(limit float64) float64 {
	x, ok := number(v.raw)
	if !ok || x < 0 || x > limit {
		v.errorf("want a number from 0 to %g, have %s", limit, display(v.raw))
		return 0
	}
	return x
}

// duration parses "1m30s" or a number of seconds. A large number is rejected: it probably means
// milliseconds, which would go unnoticed until a call hangs.
func (v node) duration() time.Duration {
	if v.raw == nil {
		return 0
	}
	var took time.Duration
	limit := maxDuration
	if s, ok := jsonrpc.String(v.raw); ok {
		took, _ = time.ParseDuration(strings.TrimSpace(s))
	} else if x, ok := number(v.raw); ok {
		took = time.Duration(min(max(x, 0), maxDuration.Seconds()) * float64(time.Second))
		limit = maxNumeric
	}
	if took <= 0 || took > limit {
		v.errorf(`want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have %s`, display(v.raw))
		return 0
	}
	return took
}

// ids parses an array of ids. It stops after more ids than there are steps.
func (v node) ids(steps int) (all []mention) {
	if v.raw == nil {
		return nil
	}
	if v.raw[0] != '[' {
		v.errorf("want an array of ids, have %s", kindOf(v.raw))
		return nil
	}
	count := 0
	for one := range jsonrpc.Elements(v.raw) {
		at := v.below(strconv.Itoa(count))
		if count++; count > 2*steps+maxShownDefects {
			at.errorf("and more ids than there are steps")
			break
		}
		if id, ok := jsonrpc.String(one); ok {
			all = append(all, mention{at, id})
		} else {
			at.errorf("want an id, have %s", kindOf(one))
		}
	}
	return all
}

// number parses a finite JSON number.
func number(raw []byte) (float64, bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	return x, err == nil
}

// display returns a number or a string as written, and the type of any other value.
func display(raw []byte) string {
	if text, ok := jsonrpc.String(raw); ok {
		return quoted(text)
	}
	if len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return excerpt.Shorten(string(raw), maxShownName)
	}
	return kindOf(raw)
}

// syntaxError describes the error in invalid JSON.
func syntaxError(raw []byte) string {
	var value json.RawMessage
	err := json.Unmarshal(raw, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("invalid JSON: %s after %d bytes", syntax, max(syntax.Offset-1, 0))
	}
	return "invalid JSON: it is not UTF-8"
}
