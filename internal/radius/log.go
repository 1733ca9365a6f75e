package radius

import (
	"context"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
)

const (
	// maxAttempts is how many login attempts are returned, and logRead how much of a log is searched for them.
	maxAttempts = 200
	logRead     = 512 << 10
	// trimEvery is how often the size of the logs is checked.
	trimEvery = 10 * time.Second
	// itself is the gateway's display name as a client.
	itself = "this gateway"
)

// reasons explain why a login failed, by the server's word.
var reasons = map[string]string{
	"":         "wrong password",
	"unknown":  "unknown user",
	"inactive": "not active",
	"method":   "method not offered: only PAP and CHAP are",
}

// Run limits the size of the server's logs, until the context ends.
func (r *Room) Run(ctx context.Context) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		for _, l := range []host.Log{freeradius.Logins, freeradius.ServerLog} {
			if err := r.Host.TrimLog(l); err != nil {
				r.Log.Warn("a log cannot be trimmed", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// authentications returns the last login attempts, newest first.
func (r *Room) authentications() ([]Authentication, error) {
	logins, err := r.Host.ReadLog(freeradius.Logins, logRead)
	if err != nil {
		return nil, err
	}
	server, err := r.Host.ReadLog(freeradius.ServerLog, logRead)
	if err != nil {
		return nil, err
	}
	list := []Authentication{}
	for line := range strings.Lines(string(logins)) {
		if a, ok := parseLogin(strings.TrimSuffix(line, "\n")); ok {
			list = append(list, a)
		}
	}
	for line := range strings.Lines(string(server)) {
		if a, ok := parseDropped(strings.TrimSuffix(line, "\n")); ok {
			list = append(list, a)
		}
	}
	// Within the same second, what was written later is newer.
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b Authentication) int { return b.At.Compare(a.At) })
	return list[:min(len(list), maxAttempts)], nil
}

// parseLogin parses a line of the login log, in the format defined in the main file.
func parseLogin(line string) (Authentication, bool) {
	f := strings.Split(line, "|")
	if len(f) != 6 {
		return Authentication{}, false
	}
	at, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil {
		return Authentication{}, false
	}
	a := Authentication{At: time.Unix(at, 0).UTC(), Client: f[1], Accepted: f[2] == "Access-Accept", User: text(f[4]), Station: text(f[5])}
	if a.Client == self {
		a.Client = itself
	}
	if !a.Accepted {
		a.Reason = reasons[f[3]]
	}
	return a, true
}

// text decodes a foreign text for display.
func text(encoded string) string {
	b, _ := hex.DecodeString(encoded)
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// dropped lists the server's messages about requests that it does not answer.
var dropped = []struct {
	form   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`^Dropping packet without response because of error: Received packet from \S+ with invalid Message-Authenticator!.*\(from client ([A-Za-z0-9_.@-]+)\)$`), "wrong shared secret"},
	{regexp.MustCompile(`^Ignoring request to auth address .* from unknown client (\S+) port \d+ proto udp$`), "unknown client"},
}

// parseDropped parses a line of the server's own log.
func parseDropped(line string) (Authentication, bool) {
	stamp, rest, ok := strings.Cut(line, " : ")
	_, words, level := strings.Cut(rest, ": ")
	if !ok || !level {
		return Authentication{}, false
	}
	at, err := time.ParseInLocation(time.ANSIC, stamp, time.Local)
	if err != nil {
		return Authentication{}, false
	}
	for _, d := range dropped {
		if m := d.form.FindStringSubmatch(words); m != nil {
			return Authentication{At: at.UTC(), Client: m[1], Reason: d.reason}, true
		}
	}
	return Authentication{}, false
}

// Admitted returns the last successful logins, newest first. While the server is off there are none.
func (r *Room) Admitted(ctx context.Context) ([]Authentication, error) {
	s, err := r.settings.Load(ctx, r.DB)
	if err != nil || !s.Enabled {
		return nil, err
	}
	list, err := r.authentications()
	return slices.DeleteFunc(list, func(a Authentication) bool { return !a.Accepted }), err
}
