// Package wide has what is to be counted.
package wide

import (
	_ "embed"
	"sync"
)

//go:embed page/page.html
var page string

//go:embed words.toml
var words string

/*
A comment of several lines
	// and one within it
*/

// Narrow has fifteen fields with those of what it embeds.
type Narrow struct {
	inner
	sync.Mutex // another module's: one field
	k, l, m, n int
}

// Wide has sixteen.
type Wide struct {
	*Narrow
	o int
}

type inner struct {
	c, d, e, aa, bb int
	f, g, h, i, j   int // line with code and a comment
}

// Alias is a name, and not a type of its own.
type Alias = Wide

var (
	lock sync.RWMutex
	text = `
// not a comment
`
)

func (inner) A() {}
func (inner) b() {}

// Do is exported; so is the method of the type before it only where the type is.
func (*Wide) Do() string {
	lock.Lock()
	defer lock.Unlock()
	return page + words + text
}
