package host

// unboundControl is where unbound takes commands.
const unboundControl = "/run/unbound.ctl"

// Resolver is the running unbound.
type Resolver interface{}
