package remote

import "time"

// Hurry leaves out the waits between tries.
func (r *Room) Hurry() { r.bounds.again = []time.Duration{time.Millisecond, time.Millisecond} }

// GiveUpSoon makes the room wait for less, so that a test of what hangs is soon over.
func (r *Room) GiveUpSoon() { r.bounds.stall = 3 * time.Second }

// Own is what the names of this gateway's archives begin with.
func (r *Room) Own() string { return r.own() }
