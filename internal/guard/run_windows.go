package guard

import "io"

// Run returns immediately: on Windows each server has a job object that ends it.
func Run(io.Reader) {}
