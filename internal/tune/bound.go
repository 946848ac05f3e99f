package tune

import "math"

// How sure a bound is: the quantile of the normal distribution.
const (
	once  = 0.8416 // 80 %, one-sided: a follow-up that is wrong costs a few calls
	twice = 1.6449 // 95 %, one-sided
)

// lower and upper are the bounds of a share by Wilson's score interval, which holds
// for few cases and for shares near 0 and 1.
func lower(right, of int, z float64) float64 { return wilson(right, of, -z) }
func upper(right, of int, z float64) float64 { return wilson(right, of, z) }

func wilson(right, of int, z float64) float64 {
	if of <= 0 {
		if z > 0 {
			return 1
		}
		return 0
	}
	n, p := float64(of), float64(right)/float64(of)
	middle := p + z*z/(2*n)
	half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return min(max((middle+half)/(1+z*z/n), 0), 1)
}

func ratio(right, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(right) / float64(of)
}

func rounded(p float64) float64 { return math.Round(p*100) / 100 }
