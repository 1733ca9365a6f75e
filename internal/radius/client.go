package radius

import (
	"errors"
	"regexp"

	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Client is equipment that asks: a switch, an access point, a VPN concentrator, or a network of them.
type Client struct {
	resource.Meta
	Name             Name         `json:"name" required:"true" doc:"Name of the client."`
	Address          value.Prefix `json:"address" required:"true" doc:"Its address, or the network that it is in."`
	Secret           secret.Text  `json:"secret,omitzero" required:"true" doc:"What it shares with the server."`
	SecretConfigured bool         `json:"secret_configured" readOnly:"true" db:"-" doc:"Whether there is a secret."`
}

// Label is how people know it.
func (c *Client) Label() string { return c.Name.String() }

// User is somebody or something that logs in.
type User struct {
	resource.Meta
	Name               Name             `json:"name" required:"true" doc:"Name to log in with."`
	Password           secret.Text      `json:"password,omitzero" required:"true" doc:"Password to log in with."`
	PasswordConfigured bool             `json:"password_configured" readOnly:"true" db:"-" doc:"Whether there is a password."`
	Active             bool             `json:"active" doc:"Off, the user is kept and cannot log in."`
	ReplyAttributes    *ReplyAttributes `json:"reply_attributes" doc:"What the client is told when the user logs in; null: nothing."`
}

// ReplyAttributes are what a client is told about a user who has logged in, under the names that RADIUS has for them.
type ReplyAttributes struct {
	FramedIPAddress      *value.Addr `json:"Framed-IP-Address,omitempty" doc:"IPv4 address of the user."`
	SessionTimeout       *int        `json:"Session-Timeout,omitempty" minimum:"1" maximum:"4294967295" doc:"Seconds after which the user has to log in again."`
	TunnelType           *string     `json:"Tunnel-Type,omitempty" enum:"VLAN" doc:"Follows by itself from Tunnel-Private-Group-Id."`
	TunnelMediumType     *string     `json:"Tunnel-Medium-Type,omitempty" enum:"IEEE-802" doc:"Follows by itself from Tunnel-Private-Group-Id."`
	TunnelPrivateGroupID *string     `json:"Tunnel-Private-Group-Id,omitempty" doc:"VLAN of the user, 1 to 4094."`
}

// Label is how people know it.
func (u *User) Label() string { return u.Name.String() }

// Name is the name of a client or a user.
type Name struct{ value.Text[name] }

type name struct{}

func (name) Example() string { return "switch-1" }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$`)

func (name) Parse(s string) (string, error) {
	if !nameForm.MatchString(s) || s == "DEFAULT" {
		return "", errors.New("must be 1 to 63 letters, digits, dots, dashes, underscores and at signs, beginning with a letter, digit or underscore, and not DEFAULT")
	}
	return s, nil
}

var (
	clients = resource.Kind[Client]{
		Name: "radius.client", Title: "RADIUS client", Path: "/radius/clients", Table: "radius_clients", Order: "name", Feeds: feeds[:1],
		View: func(c *Client) { c.SecretConfigured = c.Secret.Set() },
	}
	users = resource.Kind[User]{
		Name: "radius.user", Title: "RADIUS user", Path: "/radius/users", Table: "radius_users", Order: "name", Feeds: feeds[:1],
		New:  func() User { return User{Active: true} },
		View: func(u *User) { u.PasswordConfigured = u.Password.Set() },
	}
)
