package host

// ForwardProxy is the running squid.
type ForwardProxy interface{}
