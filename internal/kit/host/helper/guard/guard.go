// Package guard refuses configurations that would make a daemon run or load a program, or read files that are not the gateway's.
//
// A caller of the helper may have been taken over by an attacker. So the helper installs only what the gateway's own renderers
// write: of each daemon's grammar, the directives that they use and nothing else. The grammars are in the daemons' folders.
package guard

import (
	"context"
	"fmt"
	"os"
	"slices"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/parts"
)

// Admit returns an error for a file that no renderer of the gateway writes.
func Admit(f host.File) error {
	if len(f.Content) > host.FileLimit {
		return fmt.Errorf("%s is longer than %d MiB", f.Place, host.FileLimit>>20)
	}
	spec, _ := f.Place.Spec() // the machine refuses unknown places
	if spec.Grammar == nil {
		return nil
	}
	if err := spec.Grammar(string(f.Content)); err != nil {
		return fmt.Errorf("%s has content that the gateway does not write: %w", f.Place, err)
	}
	return nil
}

// Around returns a machine that installs and checks only admitted files, and listens only on these addresses.
func Around(m host.Machine, listen ...string) host.Machine { return guarded{m, listen} }

type guarded struct {
	host.Machine
	listen []string
}

// Listen refuses other ports than the gateway's own, because a socket of root's could share a port with another daemon of root's.
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

// Amend checks each new part alone. The rest of the file is already admitted, because it was installed through Install.
func (g guarded) Amend(p host.Place, c parts.Change) error {
	spec, _ := p.Spec()
	if spec.Part == nil {
		return fmt.Errorf("%s cannot be changed in parts", p)
	}
	for _, a := range c.Add {
		if err := spec.Part(string(a.Text)); err != nil {
			return fmt.Errorf("%s has content that the gateway does not write: %w", p, err)
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
