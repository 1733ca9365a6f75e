package fwdproxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"edge.internal/gateway/internal/fwdproxy/verdict"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
)

const (
	unit = squid.Unit
	// Names in squid's configuration.
	managerPort  = squid.ManagerPort
	judgeProgram = squid.JudgeProgram
	judgeSocket  = squid.JudgeSocket
	// takeWithin is how long squid may take to read its files before it is restarted.
	takeWithin = 10 * time.Second
	// lookEvery is how often to check whether it has.
	lookEvery = 10 * time.Millisecond
)

// content returns the intended content of a place.
func content(files []host.File, place host.Place) []byte {
	i := slices.IndexFunc(files, func(f host.File) bool { return f.Place == place })
	if i < 0 {
		return nil
	}
	return files[i].Content
}

// complaint matches a line of squid's output that reports a problem.
var complaint = regexp.MustCompile(`^[^|]*\| *(?:.*(?:FATAL|ERROR|WARNING|unrecognized).*|ACL not found.*)$`)

// check asks squid whether it accepts the staged drop-in, unless that is already installed. The access list needs no check, because its
// content is what the judge understands.
func (r *Room) check(ctx context.Context, files []host.File) error {
	if live, err := r.Host.Read(squid.DropIn); err == nil && string(live) == string(content(files, squid.DropIn)) {
		return nil
	}
	return consult(ctx, r.Host, files)
}

// consult asks squid about the staged drop-in. Squid only warns about some things that it does not understand and skips; that counts as a
// refusal, too.
func consult(ctx context.Context, m host.Machine, files []host.File) error {
	out, err := m.Run(ctx, squid.Check, host.Input{Staged: files})
	_, refused := errors.AsType[*host.ExitError](err)
	if err != nil && !refused {
		return err
	}
	var problems []string
	for line := range strings.Lines(out.Stdout + "\n" + out.Stderr) {
		if line = strings.TrimSpace(line); complaint.MatchString(line) {
			_, text, _ := strings.Cut(line, "|")
			problems = append(problems, strings.TrimSpace(text))
		}
	}
	if !refused && len(problems) == 0 {
		return nil
	}
	out.Stdout, out.Stderr, out.ExitCode = "", strings.Join(problems, "\n"), max(1, out.ExitCode)
	return &host.ExitError{Command: squid.Check, Output: out}
}

// take makes squid run with the files. If only the access list differs, only the judge reads it, because squid closes its port while it
// reads its own files.
func (r *Room) take(ctx context.Context, c Config, files []host.File) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return r.restart(ctx, files)
	}
	if has, err := r.Host.SquidJudge(ctx, false); err == nil && has.Configuration == mark(files) && r.mayListen(ctx, c) {
		_, err := r.Host.SquidJudge(ctx, true)
		return err
	}
	if err := r.Host.Reload(ctx, unit); err != nil {
		return r.restart(ctx, files)
	}
	if err := r.await(ctx, files); err != nil {
		r.Log.Warn("squid did not read its files and is restarted", "err", err)
		return r.restart(ctx, files)
	}
	return nil
}

func (r *Room) restart(ctx context.Context, files []host.File) error {
	if err := r.Host.Restart(ctx, unit); err != nil {
		return err
	}
	return r.await(ctx, files)
}

// await waits until squid runs with the files: it has started a judge with their mark, and then opens its ports.
func (r *Room) await(ctx context.Context, files []host.File) error {
	ctx, cancel := context.WithTimeout(ctx, takeWithin)
	defer cancel()
	for {
		has, err := r.Host.SquidJudge(ctx, false)
		if err == nil && has.Configuration == mark(files) {
			if _, err = r.listening(ctx); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = errors.New("it runs with another configuration")
			}
			return fmt.Errorf("squid has not taken its configuration after %s: %w", takeWithin, err)
		case <-time.After(lookEvery):
		}
	}
}

// marked matches the name of the drop-in in it.
var marked = regexp.MustCompile(judgeProgram + ` ([0-9a-f]{32}) `)

// mark returns the name of a drop-in.
func mark(files []host.File) string {
	if m := marked.FindSubmatch(content(files, squid.DropIn)); m != nil {
		return string(m[1])
	}
	return ""
}

// verify checks that squid runs, with these files, and listens where it should.
func (r *Room) verify(ctx context.Context, c Config, files []host.File) error {
	state, err := r.Host.State(ctx, unit)
	if err != nil {
		return err
	}
	if state.Active != "active" {
		return fmt.Errorf("squid is %s: %s", state.Active, state.Detail)
	}
	has, err := r.Host.SquidJudge(ctx, false)
	if err != nil {
		return err
	}
	if has.Configuration != mark(files) {
		return errors.New("squid runs with another configuration")
	}
	if has.List != verdict.Digest(content(files, squid.AccessList)) {
		return errors.New("the program that checks the access list has another list")
	}
	missing, err := r.missing(ctx, c)
	if err != nil {
		return err
	}
	var problems []string
	for _, a := range missing {
		problems = append(problems, fmt.Sprintf("squid does not listen on %s: %s", a, r.why(ctx, a.Addr())))
	}
	switch {
	case len(problems) == 0:
		return nil
	case len(missing) == max(1, len(c.Settings.ListenAddresses)) && slices.ContainsFunc(missing, func(a netip.AddrPort) bool { return r.has(ctx, a.Addr()) }):
		return errors.New(strings.Join(problems, "; ")) // no client is served, so the previous configuration is better
	}
	return &apply.Partial{Problems: problems}
}

// httpSocket matches a listening port in squid's report.
var httpSocket = regexp.MustCompile(`(?m)\s(\S+)\s+HTTP Socket\s*$`)

// listening asks squid where it listens.
func (r *Room) listening(ctx context.Context) ([]netip.AddrPort, error) {
	report, err := r.ask(ctx, squid.Descriptors)
	if err != nil {
		return nil, err
	}
	var list []netip.AddrPort
	for _, m := range httpSocket.FindAllStringSubmatch(report, -1) {
		if a, err := netip.ParseAddrPort(m[1]); err == nil {
			list = append(list, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
		}
	}
	return list, nil
}

// missing returns the sockets that squid should listen on but does not.
func (r *Room) missing(ctx context.Context, c Config) ([]netip.AddrPort, error) {
	has, err := r.listening(ctx)
	if err != nil {
		return nil, err
	}
	port := uint16(c.Settings.Port)
	var wanted []netip.AddrPort
	for _, a := range c.Settings.ListenAddresses {
		wanted = append(wanted, netip.AddrPortFrom(a.Netip(), port))
	}
	if len(wanted) == 0 {
		// A machine without IPv6 has the other one.
		all := []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), port), netip.AddrPortFrom(netip.IPv4Unspecified(), port)}
		if slices.ContainsFunc(all, func(a netip.AddrPort) bool { return slices.Contains(has, a) }) {
			return nil, nil
		}
		return all[:1], nil
	}
	return slices.DeleteFunc(wanted, func(a netip.AddrPort) bool { return slices.Contains(has, a) }), nil
}

// mayListen reports whether squid listens wherever it can: another attempt for an address that the machine does not have would needlessly
// close the port on the others.
func (r *Room) mayListen(ctx context.Context, c Config) bool {
	missing, err := r.missing(ctx, c)
	return err == nil && !slices.ContainsFunc(missing, func(a netip.AddrPort) bool { return r.has(ctx, a.Addr()) })
}

// has reports whether the machine has an address.
func (r *Room) has(ctx context.Context, ip netip.Addr) bool {
	links, err := r.Host.Links(ctx)
	if err != nil || ip.IsUnspecified() {
		return true // nothing contradicts it
	}
	return slices.ContainsFunc(links, func(l host.Link) bool {
		return slices.ContainsFunc(l.Addrs, func(a host.LinkAddr) bool { return a.Prefix().Addr() == ip })
	})
}

func (r *Room) why(ctx context.Context, ip netip.Addr) string {
	if r.has(ctx, ip) {
		return "the port is taken by another program, or squid could not open it; its log says more"
	}
	return "the gateway does not have this address"
}
