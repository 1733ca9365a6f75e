package conf

// Keepalived is the grammar of keepalived.conf: words between blanks, and blocks in braces, which the program writes as words. What is no
// plain word has meanings there that no quoting takes away, so that it is refused.
var Keepalived Grammar = squid{}
