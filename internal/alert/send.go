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
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/wire"
)

// mailAnswers limits the bytes read from a mail server; none needs more.
const mailAnswers = 256 << 10

// refusal is an error for the operator. It quotes nothing from the receiver except numbers.
type refusal string

func (r refusal) Error() string { return string(r) }

// send makes one attempt to send a message to a channel.
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

// explain turns an error into a sentence without quoting the receiver.
func (r *Room) explain(ctx context.Context, err error) error {
	refused, isRefused := errors.AsType[*outbound.Refused](err)
	reason, isRefusal := errors.AsType[refusal](err)
	mailed, isMailed := errors.AsType[*mail.SendError](err)
	switch {
	case err == nil:
		return nil
	case isRefused:
		return refusal("This target is not allowed: " + refused.Error() + ".")
	case isRefusal:
		return reason
	case errors.Is(err, secret.ErrOtherKey):
		return refusal("The secret was stored by another gateway. Enter it again.")
	case ctx.Err() != nil:
		return refusal(fmt.Sprintf("It did not answer within %s.", r.timing.within))
	case isMailed && mailed.ErrorCode() != 0:
		return refusal(fmt.Sprintf("The mail server refused the message (%d).", mailed.ErrorCode()))
	}
	if why := outbound.Explain(err); why != "" {
		return refusal(strings.ToUpper(why[:1]) + why[1:] + ".")
	}
	return refusal("It does not speak the expected protocol.")
}

// post sends a message to a webhook. It does not read the body of the answer.
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
	client.Timeout = 0 // the context has a timeout
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return refusal(fmt.Sprintf("It answered %d, a redirect. Enter the address that it redirects to.", res.StatusCode))
	case res.StatusCode < 200 || res.StatusCode >= 300:
		return refusal(fmt.Sprintf("It answered %d.", res.StatusCode))
	}
	return nil
}

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
		// The package's own address lacks the brackets that IPv6 needs.
		mail.WithDialContextFunc(func(_ context.Context, _, _ string) (net.Conn, error) {
			plain, err := r.Outbound.Dial(ctx, net.JoinHostPort(s.SMTPHost.String(), strconv.Itoa(s.SMTPPort)), outbound.Limits{Internal: c.AllowInternal, Dial: r.timing.within, Stall: r.timing.within, Answer: mailAnswers})
			if err != nil || !implicit {
				return plain, err
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
		// The connection is already encrypted; this lets the client detect it.
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
	_ = client.Close() // the message is already accepted or refused
	return err
}

// greeting explains why the session with a mail server failed before a message was sent.
func greeting(err error) error {
	reply, isReply := errors.AsType[*textproto.Error](err)
	switch {
	case isReply && reply.Code >= 530 && reply.Code < 540:
		return refusal(fmt.Sprintf("The mail server refused the user and password (%d).", reply.Code))
	case isReply:
		return refusal(fmt.Sprintf("The mail server answered %d.", reply.Code))
	case errors.Is(err, mail.ErrNoSupportedAuthDiscovered):
		return refusal("The mail server offers no login method, or none that is safe without TLS.")
	case strings.HasPrefix(err.Error(), "STARTTLS mode"):
		return refusal("The mail server does not offer STARTTLS.")
	}
	return err
}
