package remote

import "time"

// Hurry removes the pauses between attempts.
func (r *Room) Hurry() { r.bounds.again = []time.Duration{time.Millisecond, time.Millisecond} }

// GiveUpSoon shortens the timeout for servers that hang.
func (r *Room) GiveUpSoon() { r.bounds.stall = 3 * time.Second }

// Own returns the prefix of this gateway's archives.
func (r *Room) Own() string { return r.own() }
