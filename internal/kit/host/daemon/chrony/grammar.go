package chrony

import "edge.internal/gateway/internal/kit/host/daemon/grammar"

func admit(text string) error { return grammar.Lines(text, grammar.Longest, forms.Take) }

var forms = grammar.Following(map[string]string{
	"allow":       grammar.Address,
	"bindaddress": grammar.Address,
	"confdir":     `/etc/chrony/conf\.d`,
	"driftfile":   `/var/lib/chrony/chrony\.drift`,
	"makestep":    `[0-9.]+ -?[0-9]+`,
	"pool":        source,
	"port":        `[0-9]{1,5}`,
	"rtcsync":     ``,
	"server":      source,
})

const source = `[A-Za-z0-9_.:-]+(?: (?:iburst|prefer|(?:minpoll|maxpoll) -?[0-9]{1,2}))*`
