// Package engine inspects requests with the core rule set.
package engine

import "net/netip"

// Request is what is inspected.
type Request struct {
	ID, Domain           string
	Source, Destination  netip.AddrPort
	Method, URI, Version string
	Header               []Field // in order, repeated ones apart
	Body                 []byte
	Complete             bool // whether Body is all of it
}

// Field is one line of a request's header.
type Field struct{ Name, Value string }

// Settings are how a domain wants its requests inspected.
type Settings struct {
	Blocking bool
	Paranoia int // 1 to 4
	MaxBody  int // how many bytes of a body are inspected
}

// Verdict is what the inspection found.
type Verdict struct {
	Deny    bool
	Rule    int // that decided
	Score   int
	Partial bool // the body was longer than what was inspected
}
