package firewall

import "context"

// ResolveNow resolves the names among the address objects without waiting for the next pass.
func (r *Room) ResolveNow() { r.resolver.wake() }

// Guard is the part of Run that keeps the gateway from forwarding without its table.
func (r *Room) Guard(ctx context.Context) {
	go r.guard.listen(ctx)
	r.guard.run(ctx)
}

// ForgetHits resets the hits as in a new process.
func (r *Room) ForgetHits() { *r.hits = *newHits(r) }

func (r *Room) KnownHits() int { return len(r.hits.totals) }
