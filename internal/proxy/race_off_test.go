//go:build !race

package proxy_test

// raceDetector makes everything some ten times slower.
const raceDetector = false
