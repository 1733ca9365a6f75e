package haproxy

import "context"

const IdleFor = idleFor

var IsIdle = isIdle

// End kills a worker of a live HAProxy.
func End(ctx context.Context, p Proxy, pid int) { p.(*live).end(ctx, pid) }
