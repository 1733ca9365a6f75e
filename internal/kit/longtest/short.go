//go:build !long

package longtest

// On reports whether this is the long test run.
const On = false
