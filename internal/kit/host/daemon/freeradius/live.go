package freeradius

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"layeh.com/radius"
	"layeh.com/radius/rfc2865"
	"layeh.com/radius/rfc2868"
	"layeh.com/radius/rfc2869"

	"edge.internal/gateway/internal/kit/host/daemon"
	"edge.internal/gateway/internal/kit/host/daemon/home"
)

type live struct{ home home.Home }

func New(h home.Home) Radius { return &live{h} }

const (
	// askWithin bounds one answer. FreeRADIUS delays rejections by one second.
	askWithin = 5 * time.Second
	// retry is when a request is sent again, because a datagram may be lost.
	retry = 2 * time.Second
)

func (s *live) RadiusLogin(ctx context.Context, l Login) (Answer, error) {
	if err := s.home.Here(string(Unit)); err != nil {
		return Answer{}, err
	}
	request, err := packet(l)
	if err != nil {
		return Answer{}, fmt.Errorf("building the login request: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("freeradius did not answer within %s: %w", askWithin, context.DeadlineExceeded))
	defer cancel()
	client := radius.Client{Retry: retry, Dialer: net.Dialer{LocalAddr: &net.UDPAddr{IP: Self.AsSlice()}}}
	began := time.Now()
	response, err := client.Exchange(ctx, request, net.JoinHostPort(Self.String(), strconv.Itoa(l.Port)))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Answer{}, fmt.Errorf("freeradius: %w", daemon.ErrNotRunning)
	case err != nil && ctx.Err() != nil:
		return Answer{}, context.Cause(ctx)
	case err != nil:
		return Answer{}, fmt.Errorf("asking freeradius: %w", err)
	}
	answer := Answer{Accepted: response.Code == radius.CodeAccessAccept, Duration: time.Since(began), Attributes: []string{}}
	for _, a := range response.Attributes {
		if text := attribute(a, response); text != "" {
			answer.Attributes = append(answer.Attributes, text)
		}
	}
	return answer, nil
}

// packet builds the request and signs it: the server accepts no other.
func packet(l Login) (*radius.Packet, error) {
	p := radius.New(radius.CodeAccessRequest, []byte(l.Secret))
	if err := rfc2865.UserName_SetString(p, l.User); err != nil {
		return nil, err
	}
	if err := rfc2865.NASIdentifier_SetString(p, "gateway"); err != nil {
		return nil, err
	}
	if l.CHAP {
		// The id, followed by the MD5 of the id, the password and the challenge, which is the request's authenticator.
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

// attribute formats an attribute of an answer for people; empty for those that are of no use to them.
func attribute(a *radius.AVP, p *radius.Packet) string {
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
