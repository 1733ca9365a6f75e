package account

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/watch"
)

var failedLogins = &alarm.Kind{
	Name: "auth.login.failures", Severity: alarm.Warning, Mutable: true, Meaning: "Many logins failed within a short time.",
}

// Check finds an unusual number of failed logins.
var Check = watch.Check{
	Name: "watch.logins", Title: "Check for failed logins", Every: time.Minute,
	Kinds: []*alarm.Kind{failedLogins}, Conditions: conditions,
}

func conditions(ctx context.Context, s *watch.Scene) ([]alarm.Alarm, error) {
	n, by, err := s.Audit.Tally(ctx, "auth.login.failed", "remote_ip", s.Now.Add(-time.Duration(s.FailedLoginsMinutes)*time.Minute))
	if err != nil || n < s.FailedLogins {
		return nil, err
	}
	// The attempted names are left out, because strangers typed them.
	from := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	message := fmt.Sprintf("At least %d logins failed within %d minutes, from %d addresses.", s.FailedLogins, s.FailedLoginsMinutes, len(from))
	if len(from) == 1 {
		message = fmt.Sprintf("At least %d logins failed within %d minutes, all from %s.", s.FailedLogins, s.FailedLoginsMinutes, from[0])
	} else {
		message += fmt.Sprintf(" Most of them came from %s.", from[0])
	}
	return []alarm.Alarm{{Kind: failedLogins, Subject: "Failed logins", Message: message}}, nil
}
