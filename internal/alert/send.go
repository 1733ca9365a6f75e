package alert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// mailAnswers is more than any mail server has to say.
const mailAnswers = 256 << 10

// refusal is an error whose text is for the operator. Nothing that a receiver said is in it, but for numbers.
type refusal string

func (r refusal) Error() string { return string(r) }

// send tells a channel something, once.
func (r *Room) send(ctx context.Context, c *Channel, m *message) error {
	ctx, cancel := context.WithTimeout(ctx, r.timing.within)
	defer cancel()
	var err error
	if c.Kind == webhook {
		err = r.post(ctx, c, m)
	} else {
		err = r.mail(ctx, c, m)
	}
	return r.explain(ctx, err)
}

// explain turns what went wrong into a sentence, without anything that a receiver said.
func (r *Room) explain(ctx context.Context, err error) error {
	refused, isRefused := errors.AsType[*outbound.Refused](err)
	said, isSaid := errors.AsType[refusal](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	unverified, isUnverified := errors.AsType[*tls.CertificateVerificationError](err)
	mailed, isMailed := errors.AsType[*mail.SendError](err)
	_, isNet := errors.AsType[*net.OpError](err)
	switch {
	case err == nil:
		return nil
	case isRefused:
		return refusal("This target is not allowed: " + refused.Error() + ".")
	case isSaid:
		return said
	case errors.Is(err, secret.ErrOtherKey):
		return refusal("Its secret was stored by another gateway. Enter it again.")
	case ctx.Err() != nil:
		return refusal(fmt.Sprintf("It did not answer within %s.", r.timing.within))
	case isDNS:
		return refusal("The name " + dns.Name + " does not resolve.")
	case isUnverified:
		return refusal("Its certificate is not valid: " + unverified.Err.Error() + ".")
	case isMailed && mailed.ErrorCode() != 0:
		return refusal(fmt.Sprintf("The mail server refused the message (%d).", mailed.ErrorCode()))
	case errors.Is(err, errTooMuch):
		return refusal("It says too much.")
	case isNet:
		return refusal("It cannot be reached.")
	}
	return refusal("It does not speak the protocol that was expected.")
}

// post sends a message to a webhook. The answer's body is not read.
func (r *Room) post(ctx context.Context, c *Channel, m *message) error {
	text := m.readable(r.host())
	body, err := wire.Encode(struct {
		Kind     string    `json:"kind"`
		Severity string    `json:"severity"`
		Subject  string    `json:"subject"`
		Message  string    `json:"message"`
		Content  string    `json:"content"`
		Text     string    `json:"text"`
		FiredAt  time.Time `json:"fired_at"`
	}{string(m.Kind), string(m.Severity), m.Subject, m.Message, text, text, m.FiredAt})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range c.Settings.Headers {
		plain, err := value.Open(r.Secrets, channelTable, settingsColumn, c.ID.String())
		if err != nil {
			return err
		}
		req.Header.Set(name, plain)
	}
	req.Header.Set("Content-Type", "application/json")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "gateway/"+r.Version)
	}
	client := r.Outbound.PlainClient(c.AllowInternal)
	client.Timeout = 0 // the context has one
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return refusal(fmt.Sprintf("It answered %d, which leads elsewhere. Enter the address that it leads to.", res.StatusCode))
	case res.StatusCode < 200 || res.StatusCode >= 300:
		return refusal(fmt.Sprintf("It answered %d.", res.StatusCode))
	}
	return nil
}

// mail sends a message by e-mail.
func (r *Room) mail(ctx context.Context, c *Channel, m *message) error {
	s := &c.Settings
	msg := mail.NewMsg()
	to, err := recipients(c.Target)
	if err == nil {
		err = msg.To(to...)
	}
	if err == nil {
		err = msg.From(s.From.String())
	}
	if err != nil {
		return err
	}
	host := r.host()
	msg.Subject(m.headline() + " · " + host)
	msg.SetDate()
	msg.SetMessageIDWithValue(fmt.Sprintf("%d.%s@%s", time.Now().UnixNano(), m.Kind, host))
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetUserAgent("gateway")
	msg.SetBodyString(mail.TypeTextPlain, m.readable(host)+"\n")

	implicit := s.UseTLS && (s.ImplicitTLS || s.SMTPPort == implicitPort)
	security := r.Outbound.TLS(s.SMTPHost.String())
	options := []mail.Option{
		mail.WithPort(s.SMTPPort), mail.WithTimeout(r.timing.within), mail.WithHELO(host), mail.WithTLSConfig(security),
		mail.WithDialContextFunc(func(dialling context.Context, network, address string) (net.Conn, error) {
			conn, err := r.Outbound.Dialer(c.AllowInternal).DialContext(dialling, network, address)
			if err != nil {
				return nil, err
			}
			plain := bound(ctx, conn)
			if !implicit {
				return plain, nil
			}
			wrapped := tls.Client(plain, security)
			if err := wrapped.HandshakeContext(ctx); err != nil {
				plain.Close()
				return nil, err
			}
			return wrapped, nil
		}),
	}
	switch {
	case implicit:
		// The connection is encrypted already; this has the client find out.
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	case s.UseTLS:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	default:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if s.Username != "" {
		password, err := s.Password.Open(r.Secrets, channelTable, settingsColumn, c.ID.String())
		if err != nil {
			return err
		}
		options = append(options, mail.WithUsername(s.Username), mail.WithPassword(password), mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover))
	}
	client, err := mail.NewClient(s.SMTPHost.String(), options...)
	if err != nil {
		return err
	}
	if err := client.DialWithContext(ctx); err != nil {
		return greeting(err)
	}
	err = client.Send(msg)
	_ = client.Close() // the message is accepted or not by now
	return err
}

// greeting explains why a mail server and the gateway did not come to an understanding.
func greeting(err error) error {
	said, isSaid := errors.AsType[*textproto.Error](err)
	switch {
	case isSaid && said.Code >= 530 && said.Code < 540:
		return refusal(fmt.Sprintf("The mail server did not take the user and password (%d).", said.Code))
	case isSaid:
		return refusal(fmt.Sprintf("The mail server answered %d.", said.Code))
	case errors.Is(err, mail.ErrNoSupportedAuthDiscovered):
		return refusal("The mail server offers no way to log in, or none that is safe without TLS.")
	case strings.HasPrefix(err.Error(), "STARTTLS mode"):
		return refusal("The mail server does not offer STARTTLS.")
	}
	return err
}

// bounded is a connection that ends with its context, and from which no more than a limit is read: the mail client waits for a line as
// long as it takes, and however long it is.
type bounded struct {
	net.Conn
	deadline time.Time
	left     int
	stop     func() bool
}

var errTooMuch = errors.New("the receiver says too much")

func bound(ctx context.Context, conn net.Conn) net.Conn {
	deadline, _ := ctx.Deadline()
	return &bounded{Conn: conn, deadline: deadline, left: mailAnswers, stop: context.AfterFunc(ctx, func() { conn.Close() })}
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func (b *bounded) SetDeadline(t time.Time) error {
	if t.IsZero() || t.After(b.deadline) {
		t = b.deadline
	}
	return b.Conn.SetDeadline(t)
}

func (b *bounded) Close() error {
	b.stop()
	return b.Conn.Close()
}
