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

// anyNumber is the bound of what has none: more than that no count can mean.
const anyNumber = math.MaxInt32

// How long a call may be allowed to take.
const (
	longest       = 24 * time.Hour
	longestNumber = time.Hour // if said as a mere number
)

// node is what stands at a place. Its methods say what is wrong with it, and return what
// can be gone on with: the zero of their type for what is not given.
type node struct {
	place
	raw []byte // nil: not given
}

// members are those of an object, by their names.
type members struct {
	place
	values map[string][]byte
}

// get is the value of a member, at the place of its object if it is not given.
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
	v.say("want true or false, have %s", shown(v.raw))
	return false
}

// whole reads a whole number, also one that is written like 5.0 or 1e3.
func (v node) whole(least, most int) int {
	if v.raw == nil {
		return 0
	}
	x, ok := number(v.raw)
	if !ok || x != math.Trunc(x) || x < float64(least) || x > float64(most) && most < anyNumber {
		v.say("want a whole number %s, have %s", between(least, most), shown(v.raw))
		return least
	}
	return int(min(x, anyNumber))
}

func between(least, most int) string {
	if most >= anyNumber {
		return "of at least " + strconv.Itoa(least)
	}
	return "from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)
}

// fraction reads a number from 0 on.
func (v node) fraction(most float64) float64 {
	x, ok := number(v.raw)
	if !ok || x < 0 || x > most {
		v.say("want a number from 0 to %g, have %s", most, shown(v.raw))
		return 0
	}
	return x
}

// duration reads "1m30s", or a number of seconds. A large number is one of milliseconds
// most likely, and would not be noticed until a call hangs.
func (v node) duration() time.Duration {
	if v.raw == nil {
		return 0
	}
	var took time.Duration
	most := longest
	if s, ok := jsonrpc.String(v.raw); ok {
		took, _ = time.ParseDuration(strings.TrimSpace(s))
	} else if x, ok := number(v.raw); ok {
		took = time.Duration(min(max(x, 0), longest.Seconds()) * float64(time.Second))
		most = longestNumber
	}
	if took <= 0 || took > most {
		v.say(`want a number of seconds up to 3600, or a text such as "5s" or "2m" up to "24h", have %s`, shown(v.raw))
		return 0
	}
	return took
}

// ids reads an array of ids. One with more of them than there are steps is wrong
// anyhow, and not read further.
func (v node) ids(steps int) (all []mention) {
	if v.raw == nil {
		return nil
	}
	if v.raw[0] != '[' {
		v.say("want an array of ids, have %s", kindOf(v.raw))
		return nil
	}
	count := 0
	for one := range jsonrpc.Elements(v.raw) {
		at := v.below(strconv.Itoa(count))
		if count++; count > 2*steps+shownDefects {
			at.say("and more ids than there are steps")
			break
		}
		if id, ok := jsonrpc.String(one); ok {
			all = append(all, mention{at, id})
		} else {
			at.say("want an id, have %s", kindOf(one))
		}
	}
	return all
}

// number is a JSON number as a double; false if it is none, or none that is finite.
func number(raw []byte) (float64, bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	return x, err == nil
}

// shown is a number or a string as it was written, of anything else what it is.
func shown(raw []byte) string {
	if text, ok := jsonrpc.String(raw); ok {
		return quoted(text)
	}
	if len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		return excerpt.Shorten(string(raw), shownName)
	}
	return kindOf(raw)
}

// broken says what is wrong with JSON that is not valid.
func broken(raw []byte) string {
	var value json.RawMessage
	err := json.Unmarshal(raw, &value)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("no valid JSON: %s after %d bytes", syntax, max(syntax.Offset-1, 0))
	}
	return "no valid JSON: not all of it is UTF-8"
}
