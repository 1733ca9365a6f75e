//go:build race

package firewall

// raceDetector makes everything slow: nothing is timed with it.
const raceDetector = true
