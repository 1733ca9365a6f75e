package radius

import (
	"fmt"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Client is equipment that authenticates users: a switch, an access point, a VPN concentrator, or a network of them.
type Client struct {
	resource.Meta
	resource.Secrets
	Name             Name         `json:"name" required:"true" doc:"Name of the client."`
	Address          value.Prefix `json:"address" required:"true" doc:"Its address or network. If several networks match, the smallest is used."`
	Secret           secret.Text  `json:"secret,omitzero" required:"true" doc:"Shared secret: 1 to 128 bytes without control characters and backslashes."`
	SecretConfigured bool         `json:"secret_configured" readOnly:"true" db:"-" doc:"Whether there is a secret."`
	// Off is for equipment that cannot sign: someone between it and the gateway can then forge answers (CVE-2024-3596).
	RequireMessageAuthenticator bool `json:"require_message_authenticator" doc:"Drop requests without a Message-Authenticator. Turn it off only for equipment that cannot sign: without it, an attacker on the path can forge a login (CVE-2024-3596)."`
}

func (c *Client) Label() string { return c.Name.String() }

func (c *Client) Validate() error {
	var l check.List
	l.That(c.Address != own, "address", "is reserved for the gateway itself. Choose another loopback address")
	if text, fresh := c.Secret.Fresh(); fresh {
		if _, err := value.Parse[SharedSecret](text); err != nil {
			l.Add("secret", "%s", err)
		}
	}
	return l.Err()
}

var clients = resource.Kind[Client]{
	Name: "radius.client", Title: "RADIUS client", Path: "/radius/clients", Table: "radius_clients", Order: "name", Feeds: feeds[:1],
	New: func() Client { return Client{RequireMessageAuthenticator: true} },
}

// longest is the maximum length of a secret or a password in bytes: no more fits into a request.
const longest = 128

// SharedSecret is a client's secret in plain text, on its way into a file.
type SharedSecret struct{ value.Text[sharedSecret] }

type sharedSecret struct{}

func (sharedSecret) Example() string { return "correct horse battery staple" }

func (sharedSecret) Parse(s string) (string, error) { return s, writable(s, `\`) }

// writable refuses what FreeRADIUS's files cannot express.
func writable(s, refused string) error {
	if len(s) > longest {
		return fmt.Errorf("must have at most %d bytes", longest)
	}
	for _, r := range s {
		switch {
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029':
			return fmt.Errorf("must not contain line breaks or other control characters")
		}
		for _, x := range refused {
			if r == x {
				return fmt.Errorf("must not contain %c, which the server does not support", x)
			}
		}
	}
	return nil
}
