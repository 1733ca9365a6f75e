//go:build race

package firewall

// raceDetector makes everything slow, so nothing is timed with it.
const raceDetector = true
