//go:build !long

package longtest

// On is true in a long run.
const On = false
