// Command vet makes the checks of go vet and of go fix from source. Those commands first compile all that is
// imported, for each system, and start once for each package, which takes several times as long.
package main

import (
	"slices"

	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/fix"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() {
	suite := vet.Suite
	for _, a := range fix.Suite {
		if !slices.Contains(suite, a) {
			suite = append(suite, a)
		}
	}
	multichecker.Main(suite...)
}
