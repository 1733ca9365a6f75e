package certificate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var (
	expiring = &alarm.Kind{
		Name: "cert.expiring", Severity: alarm.Warning, Mutable: true, Meaning: "A certificate expires soon.",
	}
	renewFailed = &alarm.Kind{
		Name: "cert.renew_failed", Severity: alarm.Error, Mutable: true,
		Meaning: "A certificate could not be renewed. The current one is used until it expires.",
	}
	runFailed = &alarm.Kind{
		Name: "cert.renewer.run_failed", Severity: alarm.Error, Mutable: true,
		Meaning: "The gateway could not find out which certificates to renew.",
	}
)

// Alarms lists the kinds that orders raise themselves.
var Alarms = []*alarm.Kind{renewFailed, runFailed}

// Check finds certificates that expire soon.
var Check = watch.Check{
	Name: "watch.certificates", Title: "Check for certificates that expire soon", Primary: true, Every: time.Hour,
	Kinds: []*alarm.Kind{expiring}, Conditions: conditions,
}

func conditions(ctx context.Context, s *watch.Scene) (found []alarm.Alarm, err error) {
	rows, err := watch.Get[[]Certificate](ctx, s, "/certificates")
	const day = 24 * time.Hour
	for i := range rows {
		c := &rows[i]
		// An order that was not issued has a self-signed certificate.
		if c.NotBefore == nil || c.ExpiresAt == nil || !slices.Contains([]string{"valid", "expiring", "expired"}, c.Status) {
			continue
		}
		warning, bad := time.Duration(s.CertWarningDays)*day, time.Duration(s.CertErrorDays)*day
		// A short-lived certificate, renewed in its last third, must not cause warnings for most of its life.
		if life := c.ExpiresAt.Sub(*c.NotBefore); c.Source != "uploaded" && life < 3*warning {
			warning, bad = life/4, min(bad, life/8)
		}
		left := c.ExpiresAt.Sub(s.Now)
		if left >= warning {
			continue
		}
		a := alarm.Alarm{Kind: expiring, Key: c.ID.String(), Subject: "Certificate of " + c.Label()}
		if left < bad {
			a.Severity = alarm.Error
		}
		switch days := int(left / day); {
		case left <= 0:
			a.Message = fmt.Sprintf("It expired on %s. Browsers refuse it.", c.ExpiresAt.UTC().Format("2 January 2006, 15:04 UTC"))
		case days == 1:
			a.Message = "It expires in 1 day."
		case days == 0:
			a.Message = "It expires within a day."
		default:
			a.Message = fmt.Sprintf("It expires in %d days.", days)
		}
		found = append(found, a)
	}
	return found, err
}
