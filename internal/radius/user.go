package radius

import (
	"context"
	"errors"
	"regexp"
	"strconv"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// User is a person or a device that logs in.
type User struct {
	resource.Meta
	resource.Secrets
	Name               Name             `json:"name" required:"true" doc:"Name to log in with; upper and lower case differ."`
	Password           secret.Text      `json:"password,omitzero" required:"true" doc:"Password to log in with: 1 to 128 bytes without control characters."`
	PasswordConfigured bool             `json:"password_configured" readOnly:"true" db:"-" doc:"Whether there is a password."`
	Active             bool             `json:"active" doc:"When off, the user is kept but cannot log in."`
	ReplyAttributes    *ReplyAttributes `json:"reply_attributes" doc:"Attributes sent to the client when the user logs in; null for none."`
}

// ReplyAttributes are sent to the client of a user who has logged in, under their RADIUS names.
type ReplyAttributes struct {
	FramedIPAddress      *value.Addr `json:"Framed-IP-Address,omitempty" doc:"IPv4 address of the user."`
	SessionTimeout       *int        `json:"Session-Timeout,omitempty" minimum:"1" maximum:"4294967295" doc:"Seconds after which the user must log in again."`
	TunnelType           *string     `json:"Tunnel-Type,omitempty" enum:"VLAN" doc:"Set automatically from Tunnel-Private-Group-Id."`
	TunnelMediumType     *string     `json:"Tunnel-Medium-Type,omitempty" enum:"IEEE-802" doc:"Set automatically from Tunnel-Private-Group-Id."`
	TunnelPrivateGroupID *string     `json:"Tunnel-Private-Group-Id,omitempty" doc:"VLAN of the user, 1 to 4094."`
}

func (u *User) Label() string { return u.Name.String() }

func (u *User) Validate() error {
	var l check.List
	if text, fresh := u.Password.Fresh(); fresh {
		if _, err := value.Parse[Password](text); err != nil {
			l.Add("password", "%s", err)
		}
	}
	if u.ReplyAttributes != nil {
		if err := u.ReplyAttributes.complain(); err != nil {
			l.Add("reply_attributes", "%s", err)
		}
	}
	return l.Err()
}

// What the VLAN of a user implies.
const (
	tunnelType       = "VLAN"
	tunnelMediumType = "IEEE-802"
	vlanMost         = 4094
	sessionMost      = 1<<32 - 1
)

// complain returns an error about the first invalid attribute.
func (a *ReplyAttributes) complain() error {
	if ip := a.FramedIPAddress; ip != nil && (!ip.Netip().Is4() || ip.Netip().IsUnspecified() || ip.Netip().IsMulticast()) {
		return errors.New("Framed-IP-Address: must be the IPv4 address of a host")
	}
	if s := a.SessionTimeout; s != nil && (*s < 1 || *s > sessionMost) {
		return errors.New("Session-Timeout: must be between 1 and 4294967295")
	}
	if t := a.TunnelType; t != nil && *t != tunnelType {
		return errors.New("Tunnel-Type: must be VLAN")
	}
	if t := a.TunnelMediumType; t != nil && *t != tunnelMediumType {
		return errors.New("Tunnel-Medium-Type: must be IEEE-802")
	}
	if a.TunnelPrivateGroupID == nil {
		if a.TunnelType != nil || a.TunnelMediumType != nil {
			return errors.New("Tunnel-Private-Group-Id: is required, it is the VLAN")
		}
		return nil
	}
	if n, err := strconv.Atoi(*a.TunnelPrivateGroupID); err != nil || n < 1 || n > vlanMost || strconv.Itoa(n) != *a.TunnelPrivateGroupID {
		return errors.New("Tunnel-Private-Group-Id: must be a VLAN, a number between 1 and 4094")
	}
	return nil
}

// complete adds the attributes implied by others; nil if there are none.
func (a *ReplyAttributes) complete() *ReplyAttributes {
	if a == nil || *a == (ReplyAttributes{}) {
		return nil
	}
	whole := *a
	if whole.TunnelPrivateGroupID != nil {
		whole.TunnelType, whole.TunnelMediumType = new(string), new(string)
		*whole.TunnelType, *whole.TunnelMediumType = tunnelType, tunnelMediumType
	}
	return &whole
}

var users = resource.Kind[User]{
	Name: "radius.user", Title: "RADIUS user", Path: "/radius/users", Table: "radius_users", Order: "name", Feeds: feeds[:1],
	New: func() User { return User{Active: true} },
	Check: func(_ context.Context, _ *db.Tx, _, now *User) error {
		if now != nil {
			now.ReplyAttributes = now.ReplyAttributes.complete()
		}
		return nil
	},
}

// Password is a user's password in plain text, on its way into a file.
type Password struct{ value.Text[password] }

type password struct{}

func (password) Example() string { return "correct horse battery staple" }

func (password) Parse(s string) (string, error) { return s, writable(s, "") }

// Name is the name of a client or a user.
type Name struct{ value.Text[name] }

type name struct{}

func (name) Example() string { return "switch-1" }

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$`)

func (name) Parse(s string) (string, error) {
	if !nameForm.MatchString(s) || s == "DEFAULT" {
		return "", errors.New("must be 1 to 63 letters, digits, dots, hyphens, underscores and at signs, must start with a letter, digit or underscore, and must not be DEFAULT")
	}
	return s, nil
}
