package alert

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/textproto"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

const (
	webhook = "webhook"
	email   = "email"

	channelTable   = "alert_channels"
	settingsColumn = "settings"

	maxRecipients = 20
	maxHeaders    = 20
	maxPassword   = 1000
	// implicitPort is the port on which TLS starts with the first byte.
	implicitPort = 465
)

// Channel is a destination for alerts.
type Channel struct {
	resource.Meta
	resource.Secrets
	Name          value.Line      `json:"name" maxLength:"120" doc:"Name of the channel; its target by default."`
	Kind          string          `json:"kind" required:"true" enum:"webhook,email" doc:"How messages are sent: by a POST with JSON, or by e-mail."`
	Target        string          `json:"target" required:"true" maxLength:"2000" doc:"For a webhook: its http or https URL. For e-mail: one or more recipients, separated by commas."`
	Settings      ChannelSettings `json:"settings" doc:"Further fields of the kind."`
	MinSeverity   alarm.Severity  `json:"min_severity" enum:"info,warning,error,critical" doc:"Less severe alerts are not sent to it."`
	AllowInternal bool            `json:"allow_internal" doc:"Allow targets on the gateway itself and at link-local addresses, for example a receiver on this machine. Otherwise they are refused, whatever their name."`
	Active        bool            `json:"active" doc:"Whether alerts are sent to it; true by default."`
}

// ChannelSettings holds the settings of all kinds of channel; which of them apply depends on the kind.
type ChannelSettings struct {
	SMTPHost    value.Host    `json:"smtp_host" doc:"For e-mail: the server, by name or address."`
	SMTPPort    int           `json:"smtp_port" doc:"For e-mail: its port; 465 is TLS from the first byte."`
	Username    string        `json:"username" doc:"For e-mail: the user, if the server requires one. Without TLS the password is never sent in the clear: the server must offer CRAM-MD5 or SCRAM."`
	Password    secret.Masked `json:"password" doc:"For e-mail: the password. It is never shown."`
	From        value.Email   `json:"from" doc:"For e-mail: the sender."`
	UseTLS      bool          `json:"use_tls" doc:"For e-mail: require TLS, by STARTTLS or, on port 465, from the first byte. The server's certificate must be valid."`
	ImplicitTLS bool          `json:"implicit_tls" doc:"For e-mail: TLS from the first byte on another port than 465."`
	Headers     Headers       `json:"headers" doc:"For a webhook: headers of the request, for example Authorization. Their values are never shown."`
}

// Headers are added to a webhook's requests. Their values may be secrets.
type Headers map[string]secret.Masked

// UnmarshalJSONFrom replaces all headers; a value equal to the mask keeps what is stored under that name.
func (h *Headers) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var values map[string]jsontext.Value
	if err := json.UnmarshalDecode(d, &values); err != nil {
		return err
	}
	given := Headers{}
	for name, raw := range values {
		name = textproto.CanonicalMIMEHeaderKey(name)
		value := (*h)[name]
		if err := json.Unmarshal(raw, &value, d.Options()); err != nil {
			return err
		}
		given[name] = value
	}
	*h = given
	return nil
}

func (c *Channel) Label() string {
	if c.Name.String() != "" {
		return c.Name.String()
	}
	if u, err := url.Parse(c.Target); c.Kind == webhook && err == nil {
		return u.Host // the rest of the address may be a secret
	}
	return c.Target
}

// Validate reports settings that the kind needs but lacks, and settings that it does not take.
func (c *Channel) Validate() error {
	var l check.List
	switch c.Kind {
	case webhook:
		c.validateWebhook(&l)
	case email:
		c.validateEmail(&l)
	}
	return l.Err()
}

func (c *Channel) validateWebhook(l *check.List) {
	u, err := url.Parse(c.Target)
	switch {
	case c.Target == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		l.Add("target", "must be a URL, for example https://hooks.example.net/alerts")
	case u.User != nil:
		l.Add("target", "must not contain a user or a password. Set the header Authorization instead")
	}
	s := &c.Settings
	mail := ChannelSettings{Headers: s.Headers}
	l.That(reflect.DeepEqual(*s, mail), "settings", "applies to e-mail only, not to a webhook")
	l.That(len(s.Headers) <= maxHeaders, "settings.headers", "must have at most %d headers", maxHeaders)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		value := s.Headers[name]
		plain, _ := value.Fresh()
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			l.Add("settings.headers", "contains an invalid header name: %q", name)
		case slices.Contains(reserved, name):
			l.Add("settings.headers", "must not contain %s, which the gateway sets itself", name)
		case !httpguts.ValidHeaderFieldValue(plain) || len(plain) > 4096:
			l.Add("settings.headers", "contains an invalid value for %s", name)
		case !value.Set():
			l.Add("settings.headers", "has no value for %s", name)
		}
	}
}

// reserved lists the headers that belong to the request itself.
var reserved = []string{"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Upgrade", "Te", "Trailer", "Expect"}

func (c *Channel) validateEmail(l *check.List) {
	s := &c.Settings
	if _, err := recipients(c.Target); c.Target != "" && err != nil {
		l.Add("target", "%s", err)
	}
	l.That(!s.SMTPHost.IsZero(), "settings.smtp_host", "is required for e-mail")
	l.That(s.SMTPPort >= 1 && s.SMTPPort <= 65535, "settings.smtp_port", "must be between 1 and 65535")
	l.That(!s.From.IsZero(), "settings.from", "is required for e-mail")
	l.That(len(s.Headers) == 0, "settings.headers", "does not apply to e-mail")
	l.That(s.UseTLS || !s.ImplicitTLS, "settings.implicit_tls", "applies only with use_tls")
	line := func(text string) bool {
		return len(text) <= maxPassword && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	password, _ := s.Password.Fresh()
	l.That(line(s.Username), "settings.username", "must not contain control characters or more than %d bytes", maxPassword)
	l.That(line(password), "settings.password", "must not contain control characters or more than %d bytes", maxPassword)
	l.That(s.Username != "" || !s.Password.Set(), "settings.username", "is required with a password")
	l.That(s.Username == "" || s.Password.Set(), "settings.password", "is required with a user")
}

func recipients(target string) ([]string, error) {
	var list []string
	for _, text := range strings.Split(target, ",") {
		address, err := value.Parse[value.Email](strings.TrimSpace(text))
		if err != nil || address.IsZero() {
			return nil, errors.New("must be one or more e-mail addresses, separated by commas")
		}
		list = append(list, address.String())
	}
	if len(list) > maxRecipients {
		return nil, errors.New("must have at most 20 recipients")
	}
	return list, nil
}

func (r *Room) channelKind() resource.Kind[Channel] {
	return resource.Kind[Channel]{
		Name: "alert.channel", Title: "alert channel", Path: "/alerts", Table: channelTable, Order: "coalesce(nullif(name, ''), target)",
		New:   func() Channel { return Channel{Active: true, MinSeverity: alarm.Info} },
		Check: r.checkChannel,
	}
}

// checkChannel keeps secrets from being sent to a new destination, and ends what waits for a channel that is deleted or switched off.
func (r *Room) checkChannel(ctx context.Context, tx *db.Tx, was, now *Channel) error {
	if now == nil {
		tx.Queue(`UPDATE alert_deliveries SET state = 'error', error = 'The channel was deleted before the alert was sent.', ended_at = $2 WHERE channel_id = $1 AND state = 'waiting'`, was.ID, r.Clock.Now())
		return nil
	}
	if was != nil && was.Active && !now.Active {
		tx.Queue(`UPDATE alert_deliveries SET state = 'skipped', error = 'The channel was switched off before the alert was sent.', ended_at = $2 WHERE channel_id = $1 AND state = 'waiting'`, was.ID, r.Clock.Now())
	}
	if was == nil || resource.Restored(ctx) || destination(was) == destination(now) {
		return nil
	}
	var c check.List
	secret.Again(&c, "settings.password", now.Settings.Password)
	secret.Again(&c, "settings.headers", slices.Collect(maps.Values(now.Settings.Headers))...)
	return c.Err()
}

// destination identifies the receiver of a channel's secrets: a mail server, or a webhook's whole address, because one server may serve
// many receivers.
func destination(c *Channel) string {
	if c.Kind == email {
		return "smtp://" + net.JoinHostPort(c.Settings.SMTPHost.String(), strconv.Itoa(c.Settings.SMTPPort))
	}
	return c.Target
}
