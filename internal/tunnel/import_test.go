package tunnel_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/tunnel"
)

const (
	privateB = "OCbbd9O/g2TQ6XCXZhSUqFfssehQ5ufeubLYLQj7Rn0="
	privateC = "GOgtmtTGXNyOWfy1nLcXZhSUqFfssehQ5ufeubLYLUI="
	publicC  = "MmwDyxSzn6RN5FZlkf+44ieTnCUziirQADl4MSxd70A="
)

func serverFile() string {
	return fmt.Sprintf(`# the office
[Interface]
Address = 10.8.0.1/24
Address = fd00:8::1/64
ListenPort = 51999
PrivateKey = %s
DNS = 10.8.0.1, corp.example.net
MTU = 1400
PostUp = iptables -A FORWARD -i %%i -j ACCEPT; curl http://203.0.113.1/hook?token=secret-in-a-hook
PostDown = iptables -D FORWARD -i %%i -j ACCEPT
SaveConfig = true

# Name = Ann's laptop
[Peer]
PublicKey = %s
PresharedKey=%s
AllowedIPs = 10.8.0.2/32, fd00:8::2/128

[Peer]
# %s
publickey = %s # the second
AllowedIPs = 10.8.0.3
AllowedIPs = 192.168.9.0/24
Endpoint = site.example.net:51820
PersistentKeepalive = off
`, privateA, publicB, shared, privateC, publicC)
}

func clientFile() string {
	return fmt.Sprintf("[Interface]\nPrivateKey = %s\nAddress = 10.66.0.9\nDNS = 10.66.0.1\nTable = off\n[Peer]\nPublicKey = %s\nAllowedIPs = 0.0.0.0/0, ::/0\nEndpoint = 198.51.100.1:51820\nPersistentKeepalive = 21\n", privateB, publicB)
}

func TestTU07(t *testing.T) {
	b, _ := bench(t)
	b.Machine.SetTunnelFiles(
		host.TunnelFile{Name: "broken", Content: []byte("[Interface]\nPrivateKey = " + shared[:43] + "\n")},
		host.TunnelFile{Name: "office", Content: []byte(serverFile())},
		host.TunnelFile{Name: "out", Problem: "it cannot be read, or leads out of the folder"},
		host.TunnelFile{Name: "up", Content: []byte(clientFile())},
		host.TunnelFile{Name: "wg0", Content: []byte(serverFile())},
	)
	serverOf(t, b, "wg0", "10.9.0.1/24")
	var list []tunnel.Importable
	a := b.Do(t, "viewer", http.MethodGet, "/tunnel/importable", nil).Want(t, 200)
	a.Into(t, &list)
	got := ""
	for _, x := range list {
		got += fmt.Sprintf("%s in=%v mode=%s peers=%d notes=%d error=%v\n", x.Name, x.AlreadyIn, x.Mode, x.Peers, len(x.Notes), x.Error != "")
	}
	if want := `broken in=false mode= peers=0 notes=0 error=true
office in=false mode=server peers=2 notes=4 error=false
out in=false mode= peers=0 notes=0 error=true
up in=false mode=client peers=1 notes=2 error=false
wg0 in=true mode=server peers=2 notes=4 error=false
`; got != want {
		t.Fatalf("%s instead of\n%s", got, want)
	}
	if n := b.Rows(t, "tunnel_interfaces"); n != 1 {
		t.Fatalf("to look makes %d rows", n)
	}

	b.Do(t, "viewer", http.MethodPost, "/tunnel/import", `{}`).Want(t, 403)
	b.Do(t, "admin", http.MethodPost, "/tunnel/import", `{"names":["../../etc/passwd"]}`).WantField(t, "names")
	b.Do(t, "admin", http.MethodPost, "/tunnel/import", `{"names":["nowhere"]}`).WantField(t, "names")
	done := b.Do(t, "admin", http.MethodPost, "/tunnel/import", nil).Want(t, 200)
	var taken []tunnel.Imported
	done.Into(t, &taken)
	got = ""
	for _, x := range taken {
		got += fmt.Sprintf("%s %v %d %v\n", x.Name, x.Imported, x.Peers, x.Error != "")
	}
	if got != "broken false 0 true\noffice true 2 false\nout false 0 true\nup true 1 false\n" {
		t.Fatalf("%s", done.Body)
	}
	var again []tunnel.Imported
	b.Do(t, "admin", http.MethodPost, "/tunnel/import", `{"names":["office","wg0"]}`).Want(t, 200).Into(t, &again)
	if len(again) != 2 || again[0].Imported || again[1].Imported {
		t.Fatalf("taken twice: %+v", again)
	}

	var interfaces []tunnel.Interface
	b.Get(t, "/tunnel/interfaces").Want(t, 200).Into(t, &interfaces)
	office, up := interfaces[0], interfaces[1]
	if office.Mode != "server" || office.ListenPort != 51999 || office.AddressCIDR.String() != "10.8.0.1/24,fd00:8::1/64" || office.PublicKey.String() != publicA || office.DNS.String() != "10.8.0.1" || *office.MTU != 1400 {
		t.Errorf("%+v", office)
	}
	if up.Mode != "client" || up.AddressCIDR.String() != "10.66.0.9/32" || up.UpstreamEndpoint.String() != "198.51.100.1:51820" || up.UpstreamKeepalive != 21 || up.UpstreamAllowedIPs.String() != "0.0.0.0/0,::/0" {
		t.Errorf("%+v", up)
	}
	var peers []tunnel.Peer
	b.Get(t, peersOf(office)).Want(t, 200).Into(t, &peers)
	if len(peers) != 2 || peers[0].Name.String() != "Ann's laptop" || !peers[0].PresharedKeyConfigured || peers[0].HasPrivateKey ||
		peers[1].Name.String() != "peer 2" || peers[1].PublicKey.String() != publicC || peers[1].AllowedIPs.String() != "10.8.0.3/32,192.168.9.0/24" || peers[1].Endpoint.String() != "site.example.net:51820" {
		t.Errorf("%+v", peers)
	}
	if b.Audited(t, "tunnel.interface.create") != 3 || b.Audited(t, "tunnel.peer.create") != 2 {
		t.Error("not audited")
	}
	output := string(a.Body) + string(done.Body) + string(b.Get(t, "/peers").Body) + b.Logs.String()
	for _, secret := range []string{privateA, privateB, privateC, shared, shared[:43], "secret-in-a-hook", "iptables"} {
		if strings.Contains(output, secret) {
			t.Errorf("%s is exposed", secret)
		}
	}
	for _, word := range []string{"PostUp is not imported", "PostDown is not imported", "SaveConfig", "search domain", "Table", "systemctl disable wg-quick@office"} {
		if !strings.Contains(string(done.Body), word) {
			t.Errorf("no word about %s: %s", word, done.Body)
		}
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	b, _ := bench(t)
	top := "[Interface]\nPrivateKey = " + privateA + "\nAddress = 10.8.0.1/24\nListenPort = 51820\n"
	peer := "[Peer]\nPublicKey = " + publicB + "\nAllowedIPs = 10.8.0.2/32\n"
	for name, content := range map[string]string{
		"empty": "", "text": "hello", "early": "Address = 1.2.3.4/24\n", "none": peer, "two": top + top, "other": top + "[Network]\n",
		"unkeyed": "[Interface]\nAddress = 10.8.0.1/24\n", "homeless": "[Interface]\nPrivateKey = " + privateA + "\n",
		"twice": top + "ListenPort = 5\n", "port": strings.Replace(top, "51820", "70000", 1), "mtu": top + "MTU = 100\n", "unknown": top + "Surprise = 1\n",
		"badpeer": top + "[Peer]\nPublicKey = x\n", "lonely": top + "[Peer]\nPublicKey = " + publicB + "\n", "peerkey": top + peer + "PrivateKey = x\n",
		"ips": top + strings.Replace(peer, "10.8.0.2/32", "10.8.0.2/33", 1), "endpoint": top + peer + "Endpoint = nowhere\n", "alive": top + peer + "PersistentKeepalive = often\n",
		"same": top + peer + peer, "clash": top + peer + strings.Replace(peer, publicB, publicC, 1), "net": strings.Replace(top, "10.8.0.1", "10.8.0.0", 1), "psk": top + peer + "PresharedKey = " + shared[:43] + "\n",
	} {
		b.Machine.SetTunnelFiles(host.TunnelFile{Name: name, Content: []byte(content)})
		var done []tunnel.Imported
		a := b.Do(t, "admin", http.MethodPost, "/tunnel/import", `{}`).Want(t, 200)
		a.Into(t, &done)
		if len(done) != 1 || done[0].Imported || done[0].Error == "" {
			t.Errorf("%s: %s", name, a.Body)
		}
		if strings.Contains(string(a.Body), privateA) || strings.Contains(string(a.Body), shared[:43]) {
			t.Errorf("%s: a key is exposed: %s", name, a.Body)
		}
	}
	if n := b.Rows(t, "tunnel_interfaces") + b.Rows(t, "tunnel_peers"); n != 0 {
		t.Fatalf("%d rows", n)
	}
}
