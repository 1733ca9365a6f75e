package haproxy_test

import (
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/host/daemon/haproxy"
	"edge.internal/gateway/internal/kit/host/daemon/haproxy/haproxytest"
)

const (
	divided = haproxytest.Head + "frontend gateway_http\n  bind :80\n"
	mark    = "global\n  description 00ff\n"
	site    = "backend gateway_backend_00000000-0000-7000-8000-000000000001\n  balance roundrobin\n  server web 192.0.2.10:80 weight 100 check inter 5s\n"
	last    = "backend gateway_unavailable\n"
)

func TestSplit(t *testing.T) {
	other := strings.Replace(site, "1\n", "2\n", 1)
	for _, want := range [][]string{{divided, mark, last}, {divided, mark, site, last}, {divided, mark, site, other, last}} {
		text, err := haproxy.Split(strings.Join(want, ""))
		if err != nil || len(text) != len(want) {
			t.Errorf("%d parts instead of %d: %v", len(text), len(want), err)
			continue
		}
		for i := range text {
			if text[i].String() != want[i] {
				t.Errorf("%q instead of %q", text[i], want[i])
			}
		}
	}
	for _, text := range []string{
		"", divided, divided + mark, divided + last, mark + last, divided + mark + site, divided + mark + "frontend gateway_http\n" + last, divided + mark + "# a note\n" + last,
		divided + mark + site + "  user root" + last, divided + mark + strings.TrimSuffix(site, "\n") + last, divided + mark + "\n" + site + last,
	} {
		if parts, err := haproxy.Split(text); err == nil {
			t.Errorf("%q is divided into %q", text, parts)
		}
	}
}

// A part is admitted alone only if it is the mark, or a single backend for sites that would be admitted within the whole.
func TestPartsAreAdmittedAlone(t *testing.T) {
	head, _, _ := strings.Cut(site, "\n")
	refused := []string{
		"", "\n", " ", divided, last, mark + mark, mark + site, site + site, site + mark, site + "global\n  user root\n", site + "user root\n", site[:len(site)-1], "global\n  description x\n", "global\n  description 00\n  user root\n",
		"backend gateway_api\n  server s 192.0.2.1:80\n", "frontend gateway_http\n  bind :80\n", head + "\n  bind :80\n", head + "\n  default_backend gateway_api\n", head + "\n  http-request set-path /x\n", head + "\n  stick-table type binary len 8 size 100k expire 1s store http_req_rate(1s)\n",
		head + "\n  log global\n", head + "\n  server s unix@/run/x\n", head + "\n  option external-check\n", head + "\n  server s 192.0.2.1:80 track a/b\n", head + "\n\tbalance source\n", head + "\n  balance source\r\n",
	}
	for _, text := range haproxytest.Hostile[haproxy.Config] {
		refused = append(refused, text, text+"\n", head+"\n"+text+"\n", head+"\n  "+text+"\n")
	}
	spec, err := haproxy.Config.Spec()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range refused {
		if spec.Part(part) == nil {
			t.Errorf("admitted: %q", part)
		}
	}
	for _, part := range []string{mark, site, head + "\n", head + "\n  hash-type consistent\n  option httpchk\n  http-check expect status 200-399\n  timeout tunnel 1h\n"} {
		if err := spec.Part(part); err != nil {
			t.Errorf("%q: %v", part, err)
		}
		if err := spec.Grammar(divided + part + last); err != nil {
			t.Errorf("%q is refused in the whole: %v", part, err)
		}
	}
}
