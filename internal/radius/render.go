package radius

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"

	"edge.internal/gateway/internal/kit/conf"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/value"
)

// Render renders the configuration into FreeRADIUS's files: the main file, which includes nothing from the package, the clients, and the
// users.
func Render(c Config) ([]host.File, error) {
	main, err := renderMain(c.Settings)
	if err != nil {
		return nil, err
	}
	clients, err := renderClients(c)
	if err != nil {
		return nil, err
	}
	users, err := renderUsers(c, main, clients)
	if err != nil {
		return nil, err
	}
	return []host.File{
		{Place: freeradius.Config, Content: main},
		{Place: freeradius.Clients, Content: clients, Redact: redact},
		{Place: freeradius.Users, Content: users, Redact: redactUsers},
	}, nil
}

// confidential matches a line with a secret or a password, up to it.
var confidential = regexp.MustCompile(`(?im)^(.*?(?:secret|password)\b[^=\n]*=)[^\n]*$`)

// redact hides secrets and passwords, which end their lines.
func redact(content []byte) []byte { return confidential.ReplaceAll(content, []byte("$1 <redacted>")) }

// redactUsers also hides the gateway's probe: its name changes with every secret, so it could be used to verify a guess.
func redactUsers(content []byte) []byte {
	return redact(probeLine.ReplaceAll(content, []byte("# The gateway's own probe is not shown.")))
}

func renderMain(s Settings) ([]byte, error) {
	w := conf.New(conf.FreeRADIUS)
	w.Line(head)
	w.Line("$INCLUDE gateway-clients.conf")
	w.Line("server gateway {")
	for _, l := range s.listens() {
		w.Line("  listen {")
		if l.accounting {
			w.Line("    type = acct")
		} else {
			w.Line("    type = auth")
		}
		switch a := l.address.Netip(); {
		case a == netip.IPv4Unspecified():
			w.Line("    ipv4addr = *")
		case a == netip.IPv6Unspecified():
			w.Line("    ipv6addr = ::")
		case a.Is6():
			w.Line("    ipv6addr =", conf.Value(l.address))
		default:
			w.Line("    ipv4addr =", conf.Value(l.address))
		}
		w.Line("    port =", conf.Int(l.port))
		w.Line("  }")
	}
	w.Line(decisions)
	w.Line("}")
	return w.Bytes()
}

// self is the gateway's name as a client of its own server; no operator's client can have it.
const self = "+gateway"

// head is what FreeRADIUS needs besides the decisions: modules for two methods, a list of users and a log, and nothing else. Foreign text
// is logged in hex, so that no name can imitate another line.
const head = `name = freeradius
prefix = /usr
libdir = /usr/lib/freeradius
logdir = /var/log/freeradius
run_dir = /run/freeradius
pidfile = ${run_dir}/freeradius.pid
correct_escapes = true
hostname_lookups = no
proxy_requests = no
max_request_time = 5
cleanup_delay = 5
max_requests = 16384
log {
  destination = files
  file = ${logdir}/radius.log
  colourise = no
  auth = no
  auth_badpass = no
  auth_goodpass = no
}
security {
  allow_core_dumps = no
  max_attributes = 200
  reject_delay = 1
  status_server = no
}
thread pool {
  start_servers = 2
  max_servers = 8
  min_spare_servers = 1
  max_spare_servers = 4
  max_requests_per_server = 0
}
modules {
  pap {
    normalise = no
  }
  chap {
  }
  files {
    filename = ${confdir}/gateway-users
  }
  always reject {
    rcode = reject
  }
  always ok {
    rcode = ok
  }
  linelog {
    filename = ${logdir}/gateway-logins.log
    permissions = 0640
    format = "%l|%{client:shortname}|%{reply:Packet-Type}|%{control:Tmp-String-0}|%{hex:&User-Name}|%{hex:&Calling-Station-Id}"
  }
}`

// decisions accept users who are in the list and prove their password by PAP or CHAP, and log why others are refused. An answer is
// signed, and a refusal reveals nothing about the attributes of an acceptance. The gateway's own probes are reserved for it, and not
// logged. They are identified by the client, because every request has one: a request over IPv6 has no Packet-Src-IP-Address, and
// FreeRADIUS evaluates every condition with a missing attribute to false, even a negated one. Accounting is answered, so that clients do
// not retry forever, but not stored.
const decisions = `  authorize {
    if (&User-Name =~ /^\+/ && "%{client:shortname}" != '+gateway') {
      update control {
        &Tmp-String-0 := 'unknown'
      }
      reject
    }
    files
    if (noop) {
      update control {
        &Tmp-String-0 := 'unknown'
      }
      reject
    }
    if (&control:Auth-Type == Reject) {
      update control {
        &Tmp-String-0 := 'inactive'
      }
      reject
    }
    if (&User-Password) {
      update control {
        &Auth-Type := PAP
      }
    }
    elsif (&CHAP-Password) {
      update control {
        &Auth-Type := CHAP
      }
    }
    else {
      update control {
        &Tmp-String-0 := 'method'
      }
      reject
    }
  }
  authenticate {
    Auth-Type PAP {
      pap
    }
    Auth-Type CHAP {
      chap
    }
  }
  post-auth {
    update reply {
      &Message-Authenticator := 0x00
    }
    if (&User-Name !~ /^\+/ || "%{client:shortname}" != '+gateway') {
      linelog
    }
    Post-Auth-Type REJECT {
      update {
        &reply: !* ANY
      }
      update reply {
        &Message-Authenticator := 0x00
      }
      if (&User-Name !~ /^\+/ || "%{client:shortname}" != '+gateway') {
        linelog
      }
    }
  }
  accounting {
    ok
  }`

func renderClients(c Config) ([]byte, error) {
	w := conf.New(conf.FreeRADIUS)
	client := func(id, name conf.Arg, address value.Prefix, signed bool, secret SharedSecret) {
		w.Line("client", id, conf.Word("{"))
		if address.Netip().Addr().Is6() {
			w.Line("  ipv6addr =", conf.Value(address))
		} else {
			w.Line("  ipv4addr =", conf.Value(address))
		}
		w.Line("  shortname =", name)
		if signed {
			w.Line("  require_message_authenticator = yes")
		} else {
			w.Line("  require_message_authenticator = no")
		}
		w.Line("  secret =", conf.Value(secret))
		w.Line("}")
	}
	client(conf.Word("gateway"), conf.Word(self), own, true, c.Own)
	for _, x := range c.Clients {
		client(conf.ID(x.ID), conf.Value(x.Name), x.Address, x.RequireMessageAuthenticator, x.Secret)
	}
	return w.Bytes()
}

// renderUsers writes the users, and finally the probe, from which the gateway learns that the server has read exactly these files: the
// probe is named after them, and can only log in from the gateway. Its name reveals neither the content of the files, because they
// include the gateway's own secret, nor the password.
func renderUsers(c Config, others ...[]byte) ([]byte, error) {
	w := conf.New(conf.FreeRADIUSUsers)
	for _, u := range c.Users {
		if !u.Active {
			w.Entry(conf.Value(u.Name), conf.Word("Auth-Type := Reject"))
			continue
		}
		w.Entry(conf.Value(u.Name), conf.Word("Cleartext-Password :="), conf.Value(u.Password))
		if err := writeReply(w, u.ReplyAttributes); err != nil {
			return nil, err
		}
	}
	users, err := w.Bytes()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, file := range append(others, users) {
		sum.Write(file)
	}
	digest := sum.Sum(nil)[:16]
	password := hmac.New(sha256.New, []byte(c.Own.String()))
	password.Write(digest)
	w.Entry(conf.Joined(conf.Word("+"), conf.Hex(digest)), conf.Word("Cleartext-Password :="), conf.Hex(password.Sum(nil)[:16]))
	return w.Bytes()
}

var probeLine = regexp.MustCompile(`(?m)^(\+[0-9a-f]{32}) .* ([0-9a-f]{32})$`)

func probe(files []host.File) (name, password string) {
	for _, f := range files {
		if m := probeLine.FindSubmatch(f.Content); f.Place == freeradius.Users && m != nil {
			return string(m[1]), string(m[2])
		}
	}
	return "", ""
}

func writeReply(w *conf.Writer, a *ReplyAttributes) error {
	var items [][]conf.Arg
	if a == nil {
		return nil
	}
	if a.FramedIPAddress != nil {
		items = append(items, []conf.Arg{conf.Word("Framed-IP-Address :="), conf.Value(*a.FramedIPAddress)})
	}
	if a.SessionTimeout != nil {
		items = append(items, []conf.Arg{conf.Word("Session-Timeout :="), conf.Int(*a.SessionTimeout)})
	}
	if a.TunnelPrivateGroupID != nil {
		vlan, err := strconv.Atoi(*a.TunnelPrivateGroupID)
		if err != nil {
			return fmt.Errorf("a VLAN: %w", err)
		}
		items = append(items, []conf.Arg{conf.Word("Tunnel-Type := VLAN")}, []conf.Arg{conf.Word("Tunnel-Medium-Type := IEEE-802")},
			[]conf.Arg{conf.Word("Tunnel-Private-Group-Id :="), conf.Int(vlan)})
	}
	for i, item := range items {
		if i < len(items)-1 {
			item = append(item, conf.Word(","))
		}
		w.Line("\t", item...)
	}
	return nil
}
