package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/account"
	"edge.internal/gateway/internal/alert"
	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/backup/remote"
	"edge.internal/gateway/internal/certificate"
	"edge.internal/gateway/internal/clients"
	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/dhcp"
	"edge.internal/gateway/internal/diag"
	"edge.internal/gateway/internal/dns"
	"edge.internal/gateway/internal/firewall"
	"edge.internal/gateway/internal/fwdproxy"
	"edge.internal/gateway/internal/ids"
	"edge.internal/gateway/internal/importer/programs"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/policy"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/scheduler"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/license"
	"edge.internal/gateway/internal/license/document"
	"edge.internal/gateway/internal/logs"
	"edge.internal/gateway/internal/network"
	"edge.internal/gateway/internal/ntp"
	"edge.internal/gateway/internal/proxy"
	"edge.internal/gateway/internal/radius"
	"edge.internal/gateway/internal/setup"
	"edge.internal/gateway/internal/system"
	"edge.internal/gateway/internal/tunnel"
	"edge.internal/gateway/internal/upgrade"
	"edge.internal/gateway/internal/vrrp"
	"edge.internal/gateway/internal/waf"
)

// House is every room, wired.
type House struct {
	*kit.Kit
	Setup        *setup.Room
	Account      *account.Room
	System       *system.Room
	Network      *network.Room
	NTP          *ntp.Room
	DNS          *dns.Room
	ForwardProxy *fwdproxy.Room
	DHCP         *dhcp.Room
	RADIUS       *radius.Room
	Tunnel       *tunnel.Room
	Firewall     *firewall.Room
	Proxy        *proxy.Room
	WAF          *waf.Room
	Certificate  *certificate.Room
	IDS          *ids.Room
	License      *license.Room
	Upgrade      *upgrade.Room
	Backup       *backup.Room
	Alert        *alert.Room
	Remotes      *remote.Room
	Diagnostics  *diag.Room
	Clients      *clients.Room
	LogView      *logs.Room
	Cluster      *cluster.Room
	VRRP         *vrrp.Room
	// Management is the management port of the service itself.
	Management *Management
	// SelfSigned is the certificate that the gateway uses until it has a better one.
	SelfSigned *httpd.SelfSigned
}

// Build builds and mounts every room, in order.
func Build(k *kit.Kit, store *setup.Store, passwords *password.Hasher) (*House, error) {
	h := &House{Kit: k, Management: NewManagement(k.Host, k.Log, func() bool {
		s := store.View()
		return s.IPv6Enabled || !s.Completed // the setup decides about IPv6
	}, k.Engine.Converge)}
	var err error
	h.Setup, err = setup.New(k, setup.Deps{
		Store: store, Passwords: passwords, Join: h.join(store), Joining: func() string { return h.Cluster.Joining() },
		Decided: func(ctx context.Context) { _ = h.System.TakeIPv6(ctx) }, // it logs the error, and is retried
	})
	if err != nil {
		return nil, err
	}
	if h.Account, err = account.New(k, h.accountDeps(store, passwords)); err != nil {
		return nil, err
	}
	h.System = system.New(k, h.systemDeps(store))
	h.Network = network.New(k, network.Deps{
		VIPsElsewhere: func(ctx context.Context, q db.Querier) (bool, error) { return h.VRRP.Elsewhere(ctx, q) },
		Away:          func(ctx context.Context) (bool, error) { return h.Cluster.Away(ctx) },
		Services:      h.services(),
	})
	h.NTP = ntp.New(k)
	h.DNS = dns.New(k)
	h.ForwardProxy = fwdproxy.New(k)
	h.DHCP = dhcp.New(k, h.dhcpDeps())
	h.RADIUS = radius.New(k)
	h.Tunnel = tunnel.New(k, tunnel.Deps{FQDN: func() string { return store.View().FQDN.String() }, Resolve: resolve, Serves: h.serves})
	h.Firewall = firewall.New(k, firewall.Deps{
		Interfaces: h.Network.ZoneInterfaces,
		ZoneUsers:  h.Network.ZoneUsers,
		Openings:   []policy.Source{h.NTP.Openings, h.DNS.Openings, h.ForwardProxy.Openings, h.DHCP.Openings, h.RADIUS.Openings, h.Tunnel.Openings},
		Standing:   k.Engine.Standing,
		Tunnels:    h.Tunnel.Tunnels,
		Defaults:   h.Tunnel.Defaults,
		Peers:      h.peers,
		Resolve:    resolve,
		Way: func(ctx context.Context, source, destination netip.Addr, in string) (firewall.Way, error) {
			if in == "" {
				// The gateway's own packets have one of its addresses, which may be routed differently.
				if own, err := k.Host.RouteTo(ctx, source, netip.Addr{}, ""); err != nil || !own.Local {
					source = netip.Addr{}
				}
			}
			way, err := k.Host.RouteTo(ctx, destination, source, in)
			return firewallWay(way), err
		},
		Network:   h.foresight,
		Addresses: h.addresses,
		Carrier:   h.Tunnel.Carrier,
	})
	h.SelfSigned = selfSigned(k, store)
	h.SelfSigned.Better = func() *tls.Certificate { return h.Certificate.Own() }
	h.SelfSigned.For = func(name string) *tls.Certificate {
		if name != cluster.JoinName {
			return nil
		}
		c, _ := h.Cluster.JoinCertificate()
		return c
	}
	h.Proxy = proxy.New(k, h.proxyDeps(store))
	h.WAF = waf.New(k, waf.Deps{DomainTable: proxy.DomainTable, Domains: h.Proxy.DomainNames})
	h.Certificate = certificate.New(k, h.certificateDeps(store))
	h.IDS = ids.New(k, h.idsDeps())
	h.License = license.New(k, h.licenseDeps())
	h.Upgrade = upgrade.New(k, upgrade.Deps{Clustered: func(ctx context.Context) (bool, error) {
		peers, err := h.Cluster.Peers(ctx, k.DB)
		return len(peers) > 0, err
	}})
	h.Remotes = remote.New(k, remote.Deps{
		Adopt:   func(ctx context.Context, in io.Reader) (backup.Backup, error) { return h.Backup.Adopt(ctx, in) },
		Replace: func(ctx context.Context, in io.Reader) (backup.Backup, error) { return h.Backup.Replace(ctx, in) },
	})
	h.Backup = backup.New(k, h.backupDeps(store))
	h.Alert = alert.New(k, alertDeps(store))
	h.Diagnostics = diag.New(k, h.diagDeps())
	h.Clients = clients.New(k, h.clientDeps())
	h.LogView = logs.New(k, logs.Deps{Domains: h.Proxy.DomainNames})

	if h.Cluster, err = cluster.New(k, h.clusterDeps(store)); err != nil {
		return nil, err
	}
	k.DB.Identify(h.Cluster.ClientTLS)

	h.VRRP = vrrp.New(k, h.vrrpDeps())

	k.Router.SetupDone = h.Setup.Completed
	k.Router.Owner = h.Setup.Owner
	k.Router.Sessions, k.Router.Recall = h.Account, h.Account.Recall
	h.Setup.Mount()
	h.Account.Mount()
	h.System.Mount()
	h.Network.Mount()
	h.NTP.Mount()
	h.DNS.Mount()
	h.ForwardProxy.Mount()
	h.DHCP.Mount()
	h.RADIUS.Mount()
	h.Tunnel.Mount()
	h.Firewall.Mount()
	h.Proxy.Mount()
	h.WAF.Mount()
	h.Certificate.Mount()
	h.IDS.Mount()
	h.License.Mount()
	h.Upgrade.Mount()
	h.Backup.Mount()
	h.Alert.Mount()
	scheduler.Mount(k, periodic(k, store, h.Alert))
	h.Remotes.Mount()
	h.Diagnostics.Mount()
	h.Clients.Mount()
	h.LogView.Mount()
	h.Cluster.Mount()
	h.VRRP.Mount()
	k.Resources.MountChangeSets()
	programs.Mount(k.Router, programs.All)
	mountSpec(k)
	return h, nil
}

// addresses returns those of the gateway itself.
func (h *House) addresses(ctx context.Context, q db.Querier) ([]netip.Addr, error) {
	declared, err := h.Network.Addresses(ctx, q)
	if err != nil {
		return nil, err
	}
	inTunnels, err := h.Tunnel.Addresses(ctx, q)
	return append(declared, inTunnels...), err
}

// alertDeps gives alerts the gateway's name, and the kinds of alarms.
func alertDeps(store *setup.Store) alert.Deps {
	return alert.Deps{FQDN: func() string { return store.View().FQDN.String() }, Kinds: kinds}
}

// peers returns the addresses of the other nodes of the cluster.
func (h *House) peers(ctx context.Context, q db.Querier) ([]netip.Addr, error) {
	return h.Cluster.PeerAddresses(ctx, q)
}

// clusterDeps gives the cluster this gateway's identity, and access to other rooms.
func (h *House) clusterDeps(store *setup.Store) cluster.Deps {
	return cluster.Deps{
		Node: func() cluster.Node {
			return cluster.Node{ID: h.Host.Facts().MachineID, Name: store.View().FQDN.String()}
		},
		Database:       func(m cluster.Member) (string, error) { return h.Cluster.Conninfo(m) },
		MembersChanged: func(ctx context.Context, members []cluster.Member) error { return h.Cluster.Admit(ctx, members) },
		Virtual:        h.Network.IsVirtual,
		Accounts:       accounts{h.Account},
		Feeds:          []apply.ID{apply.PacketFilter, apply.Detection, apply.Network, apply.VRRP, apply.DHCP, apply.Tunnel},
		Update:         func(ctx context.Context, version string) error { return h.Upgrade.Begin(ctx, version) },
		Drain:          h.drain,
		Settings: func(ctx context.Context) (map[string]string, error) {
			shared, err := h.VRRP.Shared(ctx, h.DB)
			if err != nil {
				return nil, err
			}
			on, err := h.System.IPv6(ctx, h.DB)
			shared["maintenance"], shared["ipv6"] = strconv.FormatBool(store.View().Maintenance), strconv.FormatBool(on)
			return shared, err
		},
		Leave: func(ctx context.Context, tx *db.Tx) error {
			if err := h.Network.LeaveVIPs(ctx, tx); err != nil {
				return err
			}
			return h.VRRP.LeaveVIP(ctx, tx)
		},
		Left: func() error {
			return store.Update(func(s *setup.State) error {
				s.IsClusterNode, s.HasLeft, s.PrimaryFQDN = false, true, value.DomainName{}
				return nil
			})
		},
		Shown: func(ctx context.Context) { h.Engine.Refresh(ctx, apply.ReverseProxy, false) },
		HoldsVIP: func(ctx context.Context) bool {
			s, err := h.VRRP.Status(ctx, h.DB)
			return err == nil && s.State == keepalived.Master
		},
	}
}

// join returns the function that makes this machine a node of a cluster.
func (h *House) join(store *setup.Store) func(context.Context, setup.Join) error {
	return func(ctx context.Context, in setup.Join) error {
		token, _ := in.JoinToken.Fresh()
		return h.Cluster.Join(ctx, cluster.Wish{Primary: in.PrimaryFQDN.String(), Token: token, Fingerprint: in.CAFingerprint}, func(fqdn string) error {
			name, err := value.Parse[value.DomainName](fqdn)
			if err != nil {
				return err
			}
			return store.Update(func(s *setup.State) error { s.FQDN = name; return nil })
		})
	}
}

// idsDeps gives intrusion detection the addresses that must not be banned, and the packets that are dropped.
func (h *House) idsDeps() ids.Deps {
	return ids.Deps{
		Addresses: h.addresses, Peers: h.peers, Proxies: h.WAF.TrustedProxies, Operators: h.Account.Operators,
		Drops: func(ctx context.Context, send func([]ids.Drop)) error {
			return h.Firewall.Drops(ctx, func(events []firewall.LogEvent) {
				drops := make([]ids.Drop, 0, len(events))
				for _, e := range events {
					source, err := netip.ParseAddr(e.Source)
					destination, bad := netip.ParseAddr(e.Destination)
					if err == nil && bad == nil {
						drops = append(drops, ids.Drop{At: e.Timestamp, Source: source, Destination: destination, Proto: e.Proto, Port: e.DestinationPort})
					}
				}
				send(drops)
			})
		},
	}
}

// diagDeps gives diagnostics the verdicts of the packet filter, and the interfaces of each zone.
func (h *House) diagDeps() diag.Deps {
	return diag.Deps{
		Resolve: resolve,
		Zones: func(ctx context.Context) (map[value.Zone][]value.IfName, error) {
			return h.Network.ZoneInterfaces(ctx, h.DB)
		},
		Explain: func(c *httpd.Call, p diag.Packet) (diag.Verdict, error) {
			q := firewall.Question{InInterface: p.InInterface, Protocol: &p.Protocol}
			var err error
			if q.Source, err = value.Parse[value.Addr](p.Source.String()); err != nil {
				return diag.Verdict{}, err
			}
			if q.Destination, err = value.Parse[value.Addr](p.Destination.String()); err != nil {
				return diag.Verdict{}, err
			}
			if p.Port != 0 {
				q.DestinationPort = &p.Port
			}
			x, err := h.Firewall.Explain(c, q)
			if err != nil {
				return diag.Verdict{}, err
			}
			v := diag.Verdict{
				Accepted: x.Verdict == "accept", Path: x.Path, Text: x.DecidedBy.Text, Rule: x.DecidedBy.Name, RuleID: x.DecidedBy.RuleID,
				OutInterface: x.OutInterface, OutZone: x.OutZone,
			}
			if v.Destination, err = netip.ParseAddr(x.Packet.Destination); err != nil {
				return diag.Verdict{}, err
			}
			if x.Packet.DestinationPort != nil {
				v.Port = *x.Packet.DestinationPort
			}
			for _, n := range x.NAT {
				v.NAT = append(v.NAT, diag.Rewrite{Destination: n.Kind == "dnat", Rule: n.Name, RuleID: n.RuleID, From: n.From, To: n.To})
			}
			return v, nil
		},
	}
}

// resolve asks the machine's own resolver for the addresses of a name.
func resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// primary gives the accounts access to the primary of the cluster.
type primary struct{ *House }

func (p primary) Away(ctx context.Context) (bool, error) { return p.Cluster.Away(ctx) }

func (p primary) Check(ctx context.Context, client netip.Addr, email, password string) (bool, error) {
	return p.Cluster.Check(ctx, client, email, password)
}

func (p primary) Spend(ctx context.Context, s account.Spent) error {
	return p.Cluster.Spend(ctx, s.UserID, s.Kind, s.Value)
}

// accounts gives the cluster access to the accounts.
type accounts struct{ *account.Room }

func (a accounts) Spend(ctx context.Context, user uuid.UUID, kind, value string) error {
	return a.Room.Spend(ctx, account.Spent{UserID: user, Kind: kind, Value: value})
}

// accountDeps gives the accounts the administrator whom the setup created.
func (h *House) accountDeps(store *setup.Store, passwords *password.Hasher) account.Deps {
	return account.Deps{
		Primary: primary{h},
		Names: func(ctx context.Context, host string) bool {
			members, err := cluster.Members(ctx, h.DB)
			return err == nil && slices.ContainsFunc(members, func(m cluster.Member) bool { return m.FQDN == host && !m.Expected() })
		},
		Passwords:  passwords,
		FQDN:       func() string { return store.View().FQDN.String() },
		StoreAdmin: func() account.StoreAdmin { return account.StoreAdmin(store.View().Admin) },
		UpdateStoreAdmin: func(change func(*account.StoreAdmin) error) error {
			return store.Update(func(s *setup.State) error {
				a := account.StoreAdmin(s.Admin)
				err := change(&a)
				s.Admin = setup.Admin(a)
				return err
			})
		},
	}
}

// systemDeps gives the system room its flags, which are in the setup store, and the switches that are settings of other rooms.
func (h *House) systemDeps(store *setup.Store) system.Deps {
	flags := func(s *setup.State) system.Flags {
		return system.Flags{IPv6: s.IPv6Enabled, IPv6Kept: s.IPv6Kept, Maintenance: s.Maintenance, AutoUpdate: s.AutoUpdate, Retention: system.Retention(s.Retention)}
	}
	return system.Deps{
		Role: func() string { return string(h.Cluster.Role()) },
		Switches: map[string]system.Switch{
			"waf":       func(c *httpd.Call, as resource.Alias, on bool) (string, error) { return "", h.WAF.Switch(c, as, on) },
			"ids-agent": func(c *httpd.Call, as resource.Alias, on bool) (string, error) { return "", h.IDS.Switch(c, as, on) },
			"ids-firewall-bouncer": func(c *httpd.Call, as resource.Alias, on bool) (string, error) {
				return h.IDS.SwitchBouncer(c, as, on)
			},
		},
		Flags: func() system.Flags { s := store.View(); return flags(&s) },
		SetFlags: func(change func(*system.Flags)) error {
			return store.Update(func(s *setup.State) error {
				f := flags(s)
				change(&f)
				s.IPv6Enabled, s.IPv6Kept, s.Maintenance, s.AutoUpdate, s.Retention = f.IPv6, f.IPv6Kept, f.Maintenance, f.AutoUpdate, setup.Retention(f.Retention)
				return nil
			})
		},
	}
}

// dhcpDeps gives the DHCP server the gateway's interfaces, and whether this node serves.
func (h *House) dhcpDeps() dhcp.Deps {
	return dhcp.Deps{Serves: h.serves, Interfaces: func(ctx context.Context, q db.Querier) ([]dhcp.Interface, error) {
		rows, err := h.Network.Interfaces(ctx, q)
		list := make([]dhcp.Interface, len(rows))
		for i, row := range rows {
			list[i] = dhcp.Interface{Name: row.Name, Zone: row.Role, Active: row.Active}
		}
		return list, err
	}}
}

// services gives the network room the functions of other rooms that serve a network. These rooms are built after it.
func (h *House) services() network.Services {
	return network.Services{
		Zones:   func(ctx context.Context, q db.Querier) ([]value.Zone, error) { return h.Firewall.Zones(ctx, q) },
		AddZone: func(d *resource.Bundle, zone value.Zone) { h.Firewall.AddZone(d, zone) },
		Pass: func(ctx context.Context, q db.Querier, d *resource.Bundle, from, to value.Zone) error {
			return h.Firewall.Pass(ctx, q, d, from, to)
		},
		Masquerade: func(ctx context.Context, q db.Querier, d *resource.Bundle, to value.Zone) error {
			return h.Firewall.Masquerade(ctx, q, d, to)
		},
		Answer: func(ctx context.Context, q db.Querier, d *resource.Bundle, bound []netip.Prefix, forwards *[]string) error {
			return h.DNS.Serve(ctx, q, d, bound, forwards)
		},
		Time: func(ctx context.Context, q db.Querier, d *resource.Bundle, bound []netip.Prefix, sources *[]value.Host) error {
			return h.NTP.Serve(ctx, q, d, bound, sources)
		},
		Forwards: func(ctx context.Context, q db.Querier) ([]string, error) { return h.DNS.Forwards(ctx, q) },
		Sources:  func(ctx context.Context, q db.Querier) ([]value.Host, error) { return h.NTP.Sources(ctx, q) },
		HandOut: func(ctx context.Context, q db.Querier, d *resource.Bundle, networks []network.Served) error {
			list := make([]dhcp.Network, len(networks))
			for i, n := range networks {
				list[i] = dhcp.Network{Interface: n.Interface, Gateway: n.Bound, RangeStart: n.RangeStart, RangeEnd: n.RangeEnd, DNS: n.DNS, NTP: n.NTP}
			}
			return h.DHCP.Serve(ctx, q, d, list)
		},
		Publish: func(d *resource.Bundle, name value.SiteName, scheme string, address value.Host, port int) {
			h.Proxy.Publish(d, name, scheme, address, port)
		},
		Tunnel: func(ctx context.Context, q db.Querier, d *resource.Bundle, v network.Tunnelled) (value.IfName, error) {
			return h.Tunnel.Serve(ctx, q, d, v.Peer, v.Endpoint, v.Reach)
		},
	}
}

// selfSigned returns a certificate for every name by which the gateway can be reached before the setup has named it.
func selfSigned(k *kit.Kit, store *setup.Store) *httpd.SelfSigned {
	return &httpd.SelfSigned{Path: k.Paths.State("tls/self-signed.pem"), Names: func() []string {
		names := []string{k.Host.Facts().Hostname, "localhost", "127.0.0.1", "::1"}
		if fqdn := store.View().FQDN.String(); fqdn != "" {
			names = append([]string{fqdn}, names...)
		}
		return names
	}}
}

// proxyDeps gives the proxy the decisions of the setup, the certificates, and what to inspect.
func (h *House) proxyDeps(store *setup.Store) proxy.Deps {
	return proxy.Deps{
		FQDN:        func() string { return store.View().FQDN.String() },
		IPv6:        h.System.IPv6,
		Maintenance: func() bool { return store.View().Maintenance },
		Default:     h.SelfSigned.PEM,
		Certificates: func(ctx context.Context, q db.Querier) ([]proxy.Certificate, error) {
			pairs, err := h.Certificate.Pairs(ctx, q)
			list := proxyCertificates(pairs)
			if c, pem := h.Cluster.JoinCertificate(); c != nil {
				list = append(list, proxy.Certificate{
					ID: uuid.NewSHA1(uuid.Nil, c.Leaf.Raw), Names: []value.SiteName{value.Must[value.SiteName](cluster.JoinName)}, PEM: pem, NotAfter: c.Leaf.NotAfter, Management: true,
				})
			}
			return list, err
		},
		Changed: func(row apply.Row) (was, now *proxy.Certificate, ok bool) {
			before, after, ok := h.Certificate.Changed(row)
			if before != nil {
				c := proxyCertificate(*before)
				was = &c
			}
			if after != nil {
				c := proxyCertificate(*after)
				now = &c
			}
			return was, now, ok
		},
		Rivals: func(ctx context.Context, q db.Querier, names []string, ids []uuid.UUID) ([]proxy.Certificate, error) {
			pairs, err := h.Certificate.Rivals(ctx, q, names, ids)
			return proxyCertificates(pairs), err
		},
		Inspections: func(ctx context.Context, q db.Querier) ([]proxy.Inspection, error) {
			rows, err := h.WAF.Inspections(ctx, q)
			list := make([]proxy.Inspection, len(rows))
			for i, x := range rows {
				list[i] = proxy.Inspection(x)
			}
			return list, err
		},
		InspectionOf: func(ctx context.Context, q db.Querier, domain uuid.UUID) (*proxy.Inspection, error) {
			x, err := h.WAF.InspectionOf(ctx, q, domain)
			return (*proxy.Inspection)(x), err
		},
		InspectionChanged: func(row apply.Row) (domain uuid.UUID, was, now *proxy.Inspection, ok bool) {
			domain, before, after, ok := h.WAF.Changed(row)
			return domain, (*proxy.Inspection)(before), (*proxy.Inspection)(after), ok
		},
		SitesChanged: func() { h.Certificate.Wake() },
		Management:   h.Management.Holder,
	}
}

func proxyCertificates(pairs []certificate.Pair) []proxy.Certificate {
	list := make([]proxy.Certificate, len(pairs))
	for i, p := range pairs {
		list[i] = proxyCertificate(p)
	}
	return list
}

// proxyCertificate converts a certificate to the proxy's form. Names that no site can have are omitted.
func proxyCertificate(p certificate.Pair) proxy.Certificate {
	c := proxy.Certificate{ID: p.ID, PEM: p.PEM, Trusted: p.Trusted, NotAfter: p.NotAfter}
	for _, name := range p.Names {
		if n, err := value.Parse[value.SiteName](name); err == nil {
			c.Names = append(c.Names, n)
		}
	}
	return c
}

// certificateDeps gives the certificates the decisions of the setup.
func (h *House) certificateDeps(store *setup.Store) certificate.Deps {
	return certificate.Deps{
		FQDN: func() string { return store.View().FQDN.String() },
		Wanted: func(ctx context.Context, q db.Querier) ([]certificate.Wanted, error) {
			sites, err := h.Proxy.Sites(ctx, q)
			var wanted []certificate.Wanted
			for _, s := range sites {
				if s.CertificateID == nil {
					wanted = append(wanted, certificate.Wanted{DomainID: s.DomainID, Names: s.Names})
				}
			}
			if fqdn := store.View().FQDN.String(); fqdn != "" {
				wanted = append(wanted, certificate.Wanted{Names: []string{fqdn}})
			}
			return wanted, err
		},
		Users:  h.Proxy.CertificateUsers,
		Spread: func(ctx context.Context) { h.Cluster.Spread(ctx) },
		ACME: func() certificate.ACME {
			s := store.View()
			return certificate.ACME{Enabled: s.ACMEEnabled, Email: s.ACMEEmail, DirectoryURL: s.ACMEDirectoryURL}
		},
		SetACME: func(a certificate.ACME) error {
			return store.Update(func(s *setup.State) error {
				s.ACMEEnabled, s.ACMEEmail, s.ACMEDirectoryURL = a.Enabled, a.Email, a.DirectoryURL
				return nil
			})
		},
	}
}

// licenseDeps gives the license the public key of the build, and counts what licenses limit.
func (h *House) licenseDeps() license.Deps {
	d := license.Deps{Usage: func(ctx context.Context, q db.Querier) (license.Usage, error) {
		domains, err := h.Proxy.CountDomains(ctx, q)
		if err != nil {
			return license.Usage{}, err
		}
		peers, err := h.Tunnel.CountPeers(ctx, q)
		if err != nil {
			return license.Usage{}, err
		}
		others, err := h.Cluster.Peers(ctx, q)
		return license.Usage{Nodes: 1 + len(others), Domains: domains, TunnelPeers: peers}, err
	}}
	if LicensePublicKey == "" {
		return d
	}
	var err error
	if d.PublicKey, err = document.ParsePublicKey(LicensePublicKey); err != nil {
		// A mistake in the build must not keep the gateway from starting.
		h.Log.Error("this build has no usable public key for licenses", "err", err)
	}
	return d
}

// mountSpec serves the documentation of all routes, including itself.
func mountSpec(k *kit.Kit) {
	spec := sync.OnceValues(func() ([]byte, error) { return wire.Encode(k.Router.Spec(k.Version)) })
	k.Router.Add(httpd.Route{
		Doc:    httpd.Doc{ID: "openapi", Tag: "system", Summary: "This document"},
		Method: http.MethodGet, Path: "/openapi.json", Policy: httpd.Public.BeforeSetup(), In: noInput, MIME: "application/json",
	}, func(c *httpd.Call) error {
		b, err := spec()
		if err != nil {
			return err
		}
		return c.ReplyRaw("application/json", b)
	})
}
