// Command vet makes the checks of go vet from source. For another system, go vet first compiles all that is
// imported, which takes ten times as long.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"
	"golang.org/x/tools/go/analysis/suite/vet"
)

func main() { multichecker.Main(vet.Suite...) }
