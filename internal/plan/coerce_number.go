package plan

import (
	"bytes"
	"cmp"
	"math/big"
	"strings"
)

// decimal is the value of a JSON number, exactly: 0.digits × 10^point. A double would
// take 2^53+1 for 2^53, and a fraction of whole numbers would write 1e1000000000 out.
type decimal struct {
	negative bool
	digits   string // with no zero at either end; "": the number is zero
	point    *big.Int
}

// parseDecimal reads a JSON number; false if its exponent has more than a hundred
// digits, which is no number that anybody means.
func parseDecimal(number []byte) (decimal, bool) {
	mantissa, exponent := number, []byte("0")
	if i := bytes.IndexAny(number, "eE"); i >= 0 {
		mantissa, exponent = number[:i], number[i+1:]
	}
	rest, negative := bytes.CutPrefix(mantissa, []byte("-"))
	whole, part, _ := strings.Cut(string(rest), ".")
	digits := whole + part
	significant := strings.TrimLeft(digits, "0")
	if significant == "" {
		return decimal{}, true
	}
	sign := ""
	switch exponent[0] {
	case '-':
		sign = "-"
		fallthrough
	case '+':
		exponent = exponent[1:]
	}
	exponent = bytes.TrimLeft(exponent, "0")
	if len(exponent) > 100 {
		return decimal{}, false
	}
	point, ok := new(big.Int).SetString(sign+"0"+string(exponent), 10)
	if !ok {
		return decimal{}, false
	}
	point.Add(point, big.NewInt(int64(len(whole)-(len(digits)-len(significant)))))
	return decimal{negative, strings.TrimRight(significant, "0"), point}, true
}

// compare is -1, 0 or 1, as d is less than e, equal or more.
func (d decimal) compare(e decimal) int {
	if d.sign() != e.sign() {
		return cmp.Compare(d.sign(), e.sign())
	}
	size := 0
	if d.digits != "" {
		if size = d.point.Cmp(e.point); size == 0 {
			size = strings.Compare(d.digits, e.digits)
		}
	}
	return size * d.sign()
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// whole says whether it is a whole number.
func (d decimal) whole() bool {
	return d.digits == "" || d.point.Cmp(big.NewInt(int64(len(d.digits)))) >= 0
}
