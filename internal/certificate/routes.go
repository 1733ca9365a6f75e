package certificate

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/value"
)

type nameGrammar struct{}

func (nameGrammar) Example() string { return "www.example.net" }

func (nameGrammar) Parse(s string) (string, error) {
	parent, wildcard := strings.CutPrefix(s, "*.")
	name, err := value.Parse[value.DomainName](parent)
	if err != nil {
		return "", err
	}
	if wildcard {
		return "*." + name.String(), nil
	}
	return name.String(), nil
}

// Summary counts the certificates.
type Summary struct {
	Total    int `json:"total" doc:"All certificates."`
	Expiring int `json:"expiring" doc:"Those with less than 14 days left."`
	Expired  int `json:"expired" doc:"Those that are over."`
	Errors   int `json:"errors" doc:"Those whose last order failed."`
}

// Preflight asks whether an order would succeed.
type Preflight struct {
	Names         []Name     `json:"names" required:"true" doc:"Names that the certificate is for."`
	Challenge     string     `json:"challenge" enum:"http-01,dns-01" doc:"How to show that they are ours."`
	DNSProviderID *uuid.UUID `json:"dns_provider_id" doc:"Who sets the DNS record."`
}

// Finding is what a preflight found about a name.
type Finding struct {
	Name   string `json:"name" doc:"The name; empty for what concerns all."`
	Check  string `json:"check" enum:"directory,account,dns,caa,connection,provider" doc:"What was looked at."`
	OK     bool   `json:"ok" doc:"Whether it is as it must be."`
	Detail string `json:"detail" doc:"What was found, and what to do about it."`
}

// Findings is what a preflight found.
type Findings struct {
	OK       bool      `json:"ok" doc:"Whether an order should succeed."`
	Findings []Finding `json:"findings" doc:"What was looked at."`
}

// Due says what a round of renewals did.
type Due struct {
	Ordered int `json:"ordered" doc:"Certificates that are ordered now."`
}

// New builds the room.
func New(k *kit.Kit, deps Deps) *Room {
	r := &Room{Kit: k, deps: deps}
	r.certificates = resource.Kind[Certificate]{
		Name: "certificate.certificate", Title: "certificate", Path: "/certificates", Table: "certificates", Order: "names, created_at", Feeds: feeds,
		New: func() Certificate {
			return Certificate{Source: "acme", Challenge: "http-01", KeyType: "ecdsa-p256", Status: "pending"}
		},
	}
	r.providers = resource.Kind[DNSProvider]{
		Name: "certificate.dns-provider", Title: "DNS provider", Path: "/dns-providers", Table: "certificate_dns_providers", Order: "name",
		New:  func() DNSProvider { return DNSProvider{Algorithm: "hmac-sha256"} },
		View: func(p *DNSProvider) { p.SecretConfigured = p.Secret.Set() },
	}
	return r
}

var errNotYet = fault.New(fault.Unavailable, "not yet")

// Mount adds the room's routes.
func (r *Room) Mount() {
	r.certificates.Mount(r.Resources)
	r.providers.Mount(r.Resources)
	httpd.Handle(r.Router, http.MethodGet, "/certificates/summary", httpd.Read, doc("certificate.summary", "How many certificates there are, and how they stand"),
		func(*httpd.Call, struct{}) (Summary, error) { return Summary{}, errNotYet })
	httpd.Handle(r.Router, http.MethodPost, "/certificates/{id}/renew", httpd.Write, audited("certificate.renew", "Order a certificate anew"),
		func(*httpd.Call, struct {
			ID uuid.UUID `path:"id" doc:"Id of the certificate."`
		}) (Certificate, error) {
			return Certificate{}, errNotYet
		})
	httpd.Handle(r.Router, http.MethodPost, "/certificates/preflight", httpd.Write, audited("certificate.preflight", "Find out whether an order would succeed"),
		func(*httpd.Call, struct{ Body Preflight }) (Findings, error) { return Findings{}, errNotYet })
	httpd.Handle(r.Router, http.MethodPost, "/certificates/renew-due", httpd.Write, audited("certificate.renew-due", "Order every certificate that is due"),
		func(*httpd.Call, struct{}) (Due, error) { return Due{}, errNotYet })
	httpd.Handle(r.Router, http.MethodGet, "/certificates/acme", httpd.Read, doc("certificate.acme.get", "How certificates are ordered"),
		func(*httpd.Call, struct{}) (ACME, error) { return r.deps.ACME(), nil })
	httpd.Handle(r.Router, http.MethodPut, "/certificates/acme", httpd.Write, audited("certificate.acme", "Change how certificates are ordered"),
		func(c *httpd.Call, in struct{ Body httpd.Onto[ACME] }) (ACME, error) {
			now, err := in.Body.Decode(r.deps.ACME())
			if err != nil {
				return now, err
			}
			return now, r.deps.SetACME(now)
		})
}

func doc(id, summary string) httpd.Doc {
	return httpd.Doc{ID: id, Tag: "certificate", Summary: summary}
}

func audited(id, summary string) httpd.Doc {
	return httpd.Doc{ID: id, Tag: "certificate", Summary: summary, Audit: id}
}
