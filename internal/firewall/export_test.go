package firewall

// ResolveNow has the names among the address objects resolved again, without waiting for the next time.
func (r *Room) ResolveNow() { r.resolver.wake() }
