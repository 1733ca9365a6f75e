// Package guard refuses configurations that would make a daemon run something, load something, or read what is not the gateway's.
//
// Who asks for a file to be installed need not be who it seems. So the helper takes only what the gateway's own renderers write: of each
// grammar the directives that they use, and nothing else. The grammars are in the daemons' folders.
package guard

import (
	"context"
	"fmt"
	"os"
	"slices"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/parts"
)

// Admit complains about a file that no renderer of the gateway writes.
func Admit(f host.File) error {
	if len(f.Content) > host.FileLimit {
		return fmt.Errorf("%s is longer than %d MiB", f.Place, host.FileLimit>>20)
	}
	spec, err := f.Place.Spec()
	if err != nil {
		return err
	}
	if spec.Grammar == nil {
		return nil
	}
	if err := spec.Grammar(string(f.Content)); err != nil {
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
	spec, err := p.Spec()
	if err != nil {
		return err
	}
	if spec.Part == nil {
		return fmt.Errorf("%s is written as a whole", p)
	}
	for _, a := range c.Add {
		if err := spec.Part(string(a.Text)); err != nil {
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
