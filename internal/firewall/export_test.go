package firewall

import "context"

// ResolveNow has the names among the address objects resolved again, without waiting for the next time.
func (r *Room) ResolveNow() { r.resolver.wake() }

// Guard is the part of Run that keeps the gateway from forwarding without its table.
func (r *Room) Guard(ctx context.Context) {
	go r.guard.listen(ctx)
	r.guard.run(ctx)
}

// ForgetHits makes the process a new one, as far as hits go.
func (r *Room) ForgetHits() { *r.hits = *newHits(r) }

// KnownHits is how many totals are in memory.
func (r *Room) KnownHits() int { return len(r.hits.totals) }
