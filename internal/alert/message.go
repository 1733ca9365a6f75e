package alert

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/alarm"
)

// message is the content of an alert, whatever the channel.
type message struct {
	Kind     alarm.Name
	Severity alarm.Severity
	Subject  string
	Message  string
	FiredAt  time.Time
	resolved bool
}

// readableLimit is the maximum length of the text: Discord has the strictest limit of the common receivers.
const readableLimit = 1900

func of(e *Event) message {
	return message{Kind: e.Kind, Severity: e.Severity, Subject: e.Subject, Message: e.Message, FiredAt: e.CreatedAt, resolved: e.Resolved}
}

func (m *message) headline() string {
	word := strings.ToUpper(string(m.Severity))
	if m.resolved {
		word = "RESOLVED"
	}
	return fmt.Sprintf("[%s] %s", word, m.Subject)
}

// readable formats the message for people.
func (m *message) readable(host string) string {
	text := m.headline()
	if m.Message != "" {
		text += "\n" + m.Message
	}
	tail := fmt.Sprintf("\n(%s on %s, %s)", m.Kind, host, m.FiredAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	if room := readableLimit - utf8.RuneCountInString(tail); utf8.RuneCountInString(text) > room {
		text = string([]rune(text)[:room-1]) + "…"
	}
	return text + tail
}

// tally counts the waiting events of one kind.
type tally struct {
	Kind     alarm.Name
	Severity alarm.Severity
	Over     bool
	Count    int
	Subject  string
	First    time.Time
}

// digestLines is how many kinds of event a digest lists.
const digestLines = 15

// digest combines many events into one message, the worst first.
func digest(list []tally, now time.Time) message {
	m := message{Kind: Digest.Name, Severity: alarm.Info, FiredAt: now}
	total := 0
	var lines []string
	for i, t := range list {
		total += t.Count
		if t.Severity.Worse(m.Severity) {
			m.Severity = t.Severity
		}
		if i < digestLines {
			word := string(t.Severity)
			if t.Over {
				word = "resolved"
			}
			line := fmt.Sprintf("%d × %s (%s): %s", t.Count, t.Kind, word, t.Subject)
			if t.Count > 1 {
				line += fmt.Sprintf(", and %d more", t.Count-1)
			}
			lines = append(lines, line)
		}
	}
	if more := len(list) - digestLines; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d other kinds of event", more))
	}
	m.Subject = fmt.Sprintf("%d alerts", total)
	m.Message = strings.Join(lines, "\n") + "\nThe console has all of them, under Alerts."
	return m
}
