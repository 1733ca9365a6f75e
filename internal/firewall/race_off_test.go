//go:build !race

package firewall

const raceDetector = false
