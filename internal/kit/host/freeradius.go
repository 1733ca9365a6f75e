package host

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2868"
	"layeh.com/radius/rfc2869"
	_ "layeh.com/radius/rfc3580" // the name of VLAN
)

// RadiusSelf is the address of the gateway as a client of its own RADIUS server, and the address at which that listens for it.
// It is one of the machine's own that nobody else uses, so that a client of an operator may be 127.0.0.1.
var RadiusSelf = netip.MustParseAddr("127.255.255.254")

const (
	// radiusWithin is how long FreeRADIUS may take for an answer: it lets those wait a second whom it rejects.
	radiusWithin = 5 * time.Second
	// radiusRetry is when a question is asked again: a datagram may be lost.
	radiusRetry = 2 * time.Second
)

// Radius is the running FreeRADIUS.
type Radius interface {
	// RadiusLogin logs in at the machine's own FreeRADIUS, from RadiusSelf, and returns its answer, which may be a refusal. A
	// FreeRADIUS that does not run is ErrNotRunning.
	RadiusLogin(ctx context.Context, l RadiusLogin) (RadiusAnswer, error)
}

// RadiusLogin is an attempt to log in.
type RadiusLogin struct {
	Port           int
	Secret         string // what RadiusSelf shares with the server
	User, Password string
	CHAP           bool // otherwise PAP
}

// RadiusAnswer is what the server answered.
type RadiusAnswer struct {
	Accepted bool
	// Attributes are what it replied, such as Session-Timeout = 3600.
	Attributes []string
	Duration   time.Duration
}

// RadiusLogin logs in at the machine's own FreeRADIUS.
func (s *System) RadiusLogin(ctx context.Context, l RadiusLogin) (RadiusAnswer, error) {
	if err := s.here(string(FreeRADIUS)); err != nil {
		return RadiusAnswer{}, err
	}
	request, err := l.packet()
	if err != nil {
		return RadiusAnswer{}, fmt.Errorf("a log-in that cannot be asked for: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, radiusWithin, fmt.Errorf("freeradius did not answer within %s: %w", radiusWithin, context.DeadlineExceeded))
	defer cancel()
	client := radius.Client{Retry: radiusRetry, Dialer: net.Dialer{LocalAddr: &net.UDPAddr{IP: RadiusSelf.AsSlice()}}}
	began := time.Now()
	response, err := client.Exchange(ctx, request, net.JoinHostPort(RadiusSelf.String(), strconv.Itoa(l.Port)))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return RadiusAnswer{}, fmt.Errorf("freeradius: %w", ErrNotRunning)
	case err != nil && ctx.Err() != nil:
		return RadiusAnswer{}, context.Cause(ctx)
	case err != nil:
		return RadiusAnswer{}, fmt.Errorf("asking freeradius: %w", err)
	}
	answer := RadiusAnswer{Accepted: response.Code == radius.CodeAccessAccept, Duration: time.Since(began), Attributes: []string{}}
	for _, a := range response.Attributes {
		if text := radiusAttribute(a, response); text != "" {
			answer.Attributes = append(answer.Attributes, text)
		}
	}
	return answer, nil
}

// packet is the request, signed: the server takes no other.
func (l RadiusLogin) packet() (*radius.Packet, error) {
	p := radius.New(radius.CodeAccessRequest, []byte(l.Secret))
	if err := rfc2865.UserName_SetString(p, l.User); err != nil {
		return nil, err
	}
	if err := rfc2865.NASIdentifier_SetString(p, "gateway"); err != nil {
		return nil, err
	}
	if l.CHAP {
		// The identifier, and the digest of it, the password and the challenge, which is the request's authenticator.
		id := make([]byte, 1)
		if _, err := rand.Read(id); err != nil {
			return nil, err
		}
		digest := md5.Sum(append(append(id[:1:1], l.Password...), p.Authenticator[:]...))
		if err := rfc2865.CHAPPassword_Set(p, append(id, digest[:]...)); err != nil {
			return nil, err
		}
	} else if err := rfc2865.UserPassword_SetString(p, l.Password); err != nil {
		return nil, err
	}
	if err := rfc2869.MessageAuthenticator_Set(p, make([]byte, md5.Size)); err != nil {
		return nil, err
	}
	unsigned, err := p.Encode()
	if err != nil {
		return nil, err
	}
	mac := hmac.New(md5.New, []byte(l.Secret))
	mac.Write(unsigned)
	return p, rfc2869.MessageAuthenticator_Set(p, mac.Sum(nil))
}

// radiusAttribute is an attribute of an answer in words; one that nobody has to see has none.
func radiusAttribute(a *radius.AVP, p *radius.Packet) string {
	switch a.Type {
	case rfc2869.MessageAuthenticator_Type:
		return ""
	case rfc2865.FramedIPAddress_Type:
		return "Framed-IP-Address = " + rfc2865.FramedIPAddress_Get(p).String()
	case rfc2865.SessionTimeout_Type:
		return fmt.Sprintf("Session-Timeout = %d", rfc2865.SessionTimeout_Get(p))
	case rfc2865.ReplyMessage_Type:
		return "Reply-Message = " + rfc2865.ReplyMessage_GetString(p)
	case rfc2868.TunnelType_Type:
		_, v := rfc2868.TunnelType_Get(p)
		return "Tunnel-Type = " + v.String()
	case rfc2868.TunnelMediumType_Type:
		_, v := rfc2868.TunnelMediumType_Get(p)
		return "Tunnel-Medium-Type = " + v.String()
	case rfc2868.TunnelPrivateGroupID_Type:
		_, v := rfc2868.TunnelPrivateGroupID_GetString(p)
		return "Tunnel-Private-Group-Id = " + v
	}
	return fmt.Sprintf("Attribute %d = 0x%x", a.Type, []byte(a.Attribute))
}
