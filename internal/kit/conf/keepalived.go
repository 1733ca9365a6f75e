package conf

// Keepalived is the grammar of keepalived.conf: words between blanks, and blocks in braces, which the program writes as words. As
// in Squid's grammar, values that are not plain words are refused, because no quoting makes them safe.
var Keepalived Grammar = squid{}
