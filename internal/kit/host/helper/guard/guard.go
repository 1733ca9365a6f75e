// Package guard refuses configurations that would make a daemon run something, load something, or read what is not the gateway's.
//
// Who asks for a file to be installed need not be who it seems. So the helper takes only what the gateway's own renderers write: of each
// grammar the directives that they use, and nothing else.
package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/parts"
)

// Admit complains about a file that no renderer of the gateway writes.
func Admit(f host.File) error {
	if len(f.Content) > host.FileLimit {
		return fmt.Errorf("%s is longer than %d MiB", f.Place, host.FileLimit>>20)
	}
	look, ok := grammars[f.Place]
	if !ok {
		return nil // a list, a page or a key: nothing in it is a directive
	}
	if err := look(string(f.Content)); err != nil {
		return fmt.Errorf("%s is not for the gateway to write: %w", f.Place, err)
	}
	return nil
}

// Around is a machine that writes and tries only what is admitted, and listens on some addresses only.
func Around(m host.Machine, listen ...string) host.Machine { return guarded{m, listen} }

type guarded struct {
	host.Machine
	listen []string
}

// Listen refuses what is not one of the gateway's own ports: a socket of root's may share a port with another one of root's.
func (g guarded) Listen(ctx context.Context, network, address string) (*os.File, error) {
	if address == "" || !slices.Contains(g.listen, address) {
		return nil, fmt.Errorf("the gateway is not configured to listen on %q", address)
	}
	return g.Machine.Listen(ctx, network, address)
}

func (g guarded) Install(p host.Place, content []byte) error {
	if err := Admit(host.File{Place: p, Content: content}); err != nil {
		return err
	}
	return g.Machine.Install(p, content)
}

// Amend takes parts of which each is admitted without the others, into a file that was: what is there then has been admitted whole.
func (g guarded) Amend(p host.Place, c parts.Change) error {
	look, ok := pieces[p]
	if !ok {
		return fmt.Errorf("%s is written as a whole", p)
	}
	for _, a := range c.Add {
		if err := look(string(a.Text)); err != nil {
			return fmt.Errorf("%s is not for the gateway to write: %w", p, err)
		}
	}
	return g.Machine.Amend(p, c)
}

func (g guarded) Run(ctx context.Context, c host.Command, in host.Input) (host.Output, error) {
	for _, f := range in.Staged {
		if err := Admit(f); err != nil {
			return host.Output{}, err
		}
	}
	return g.Machine.Run(ctx, c, in)
}

func (g guarded) FilterDigestOf(ctx context.Context, f host.File) (string, error) {
	if err := Admit(f); err != nil {
		return "", err
	}
	return g.Machine.FilterDigestOf(ctx, f)
}

// pieces are the grammars of the parts of places that can be written part by part. A text is admitted exactly if its frame and each of its
// parts are.
var pieces = map[host.Place]func(part string) error{host.PacketFilterTable: filterPart}

// grammars are those of the places that hold directives.
var grammars = map[host.Place]func(text string) error{
	host.ChronyMain:       chrony,
	host.ChronyDropIn:     chrony,
	host.UnboundMain:      unbound,
	host.UnboundDropIn:    unbound,
	host.SquidMain:        squid,
	host.SquidDropIn:      squid,
	host.KeaConfig:        kea,
	host.RadiusConfig:     radiusConfig,
	host.RadiusClients:    radiusClients,
	host.RadiusUsers:      radiusUsers,
	host.ProxyConfig:      haproxy,
	host.ProxyInspection:  spoe,
	host.ProxyBlockedPage: page,

	host.ProxyCertificateList: certificates,
	host.ProxyManagementList:  certificates,

	host.PacketFilterTable: packetFilter,
	host.VRRPConfig:        keepalived,
	host.VRRPDrain:         drain,
	host.DatabaseSettings:  databaseSettings,
	host.DatabaseAccess:    databaseAccess,
	host.DatabaseMembers:   databaseMembers,
	host.MasterKey:         masterKey,
	host.NodeFile:          nodeFile,

	host.DetectionConfig:    crowdSec[host.DetectionConfig].only,
	host.DetectionSources:   crowdSec[host.DetectionSources].only,
	host.DetectionProfiles:  crowdSec[host.DetectionProfiles].only,
	host.DetectionParsers:   crowdSec[host.DetectionParsers].only,
	host.DetectionAllowList: crowdSec[host.DetectionAllowList].only,
	host.DetectionScenarios: crowdSec[host.DetectionScenarios].only,
	host.DetectionBouncer:   crowdSec[host.DetectionBouncer].only,
}

// masterKey takes a key and nothing else.
func masterKey(text string) error {
	if len(text) != 32 {
		return fmt.Errorf("it has %d bytes", len(text))
	}
	return nil
}

var nodeLine = regexp.MustCompile(`^(NODE_ID|HOSTNAME|MGMT_IP|ROLE|PEER_HOSTS)=[A-Za-z0-9.:,_-]*$`)

// nodeFile takes settings whose values a shell reads as they are.
func nodeFile(text string) error {
	return lines(text, longest, func(words []string) error {
		if len(words) != 1 || !nodeLine.MatchString(words[0]) {
			return fmt.Errorf("it has %q", strings.Join(words, " "))
		}
		return nil
	})
}

// longest is how long a line may be. Some daemons cut longer ones, each at a length of its own, and read the rest as another line; for
// one that does not, there is no limit.
const longest, anyLength = 1000, 0

// lines calls look with the words of every line that has some and is no comment. What a daemon could take for the end of a line, or for
// none, is refused everywhere.
func lines(text string, limit int, look func(words []string) error) error {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, " \t\n")
		var err error
		switch words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }); {
		case limit > 0 && len(line) > limit:
			err = fmt.Errorf("it has %d characters", len(line))
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			err = errors.New("it has a control character")
		case strings.HasSuffix(line, `\`):
			err = errors.New("it goes on in the next line")
		case len(words) > 0 && !strings.HasPrefix(words[0], "#"):
			err = look(words)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return nil
}

// only refuses every directive but some.
func only(directives ...string) func(words []string) error {
	return func(words []string) error {
		if !slices.Contains(directives, words[0]) {
			return fmt.Errorf("it has %q", words[0])
		}
		return nil
	}
}

// forms are what may follow a directive: a regular expression for the rest of its line.
type forms map[string]*regexp.Regexp

// following makes forms of expressions by directive.
func following(rest map[string]string) forms {
	f := forms{}
	for directive, form := range rest {
		f[directive] = regexp.MustCompile("^(?:" + form + ")$")
	}
	return f
}

// take refuses every line but those of the forms.
func (f forms) take(words []string) error {
	if form := f[words[0]]; form == nil || !form.MatchString(strings.Join(words[1:], " ")) {
		return fmt.Errorf("it has %q", strings.Join(words, " "))
	}
	return nil
}

// address is one of IPv4 or IPv6, or a network.
const address = `[0-9a-f.:]+(?:/[0-9]{1,3})?`
