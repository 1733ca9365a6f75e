package fwdproxy

// Ask asks a machine's squid about files.
var Ask = ask
