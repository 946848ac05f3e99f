package wide

import "testing"

func Test(t *testing.T) {}
