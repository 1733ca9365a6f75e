package haproxy

import "context"

const IdleFor = idleFor

var ServesNothing = servesNothing

// End ends a worker of a live HAProxy.
func End(ctx context.Context, p Proxy, pid int) { p.(*live).end(ctx, pid) }
