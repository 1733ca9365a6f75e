package ntp

import (
	"net/netip"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/value"
)

// Render renders the configuration into chrony's files: a main file that only includes, and the drop-in.
func Render(c Config) ([]host.File, error) {
	main := conf.New(conf.Chrony)
	main.Line("confdir", conf.Word("/etc/chrony/conf.d"))
	mainFile, err := main.Bytes()
	if err != nil {
		return nil, err
	}
	dropIn, err := renderDropIn(c)
	if err != nil {
		return nil, err
	}
	return []host.File{{Place: chrony.Main, Content: mainFile}, {Place: chrony.DropIn, Content: dropIn}}, nil
}

func renderDropIn(c Config) ([]byte, error) {
	w := conf.New(conf.Chrony)
	for _, p := range c.Pools {
		args := []conf.Arg{conf.Value(p.Address)}
		if p.IBurst {
			args = append(args, conf.Word("iburst"))
		}
		if p.Prefer {
			args = append(args, conf.Word("prefer"))
		}
		args = append(args, conf.Word("minpoll"), conf.Int(p.MinPoll), conf.Word("maxpoll"), conf.Int(p.MaxPoll))
		if p.Kind == "pool" {
			w.Line("pool", args...)
		} else {
			w.Line("server", args...)
		}
	}
	s := c.Settings
	if s.ServeClients {
		w.Line("port", conf.Int(port))
		w.Line("bindaddress", bind(s.ListenAddresses, netip.IPv4Unspecified(), "127.0.0.1"))
		w.Line("bindaddress", bind(s.ListenAddresses, netip.IPv6Unspecified(), "::1"))
		for _, network := range s.AllowACL {
			w.Line("allow", conf.Value(network))
		}
	} else {
		// Without a port the daemon is only a client: nothing listens on 123.
		w.Line("port", conf.Int(0))
	}
	if !s.Makestep.IsZero() {
		threshold, limit := s.Makestep.parts()
		w.Line("makestep", conf.Value(threshold), conf.Value(limit))
	}
	if s.RTCSync {
		w.Line("rtcsync")
	}
	w.Line("driftfile", conf.Word("/var/lib/chrony/chrony.drift"))
	return w.Bytes()
}

// bind returns the address that chrony binds for a family: the only listed one, all addresses if several are listed, and loopback if none
// is.
func bind(listed []value.Addr, all netip.Addr, loopback string) conf.Arg {
	var family []value.Addr
	for _, a := range listed {
		if a.Netip().Is4() == all.Is4() {
			family = append(family, a)
		}
	}
	switch len(family) {
	case 0:
		return conf.Value(value.Must[value.Addr](loopback))
	case 1:
		return conf.Value(family[0])
	}
	return conf.Value(value.Must[value.Addr](all.String()))
}
