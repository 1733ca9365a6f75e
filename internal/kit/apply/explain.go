package apply

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/host"
)

// reason says why a component is not live.
type reason struct {
	// sentence is for everyone: it contains neither file names nor SQL.
	sentence string
	// detail is the message of the daemon or program, if it says more.
	detail string
}

// nameOf returns the display name of a daemon, or "" if it has none or is not in the list.
func nameOf(u host.Unit) string {
	spec, _ := u.Spec()
	return spec.Name
}

func displayName(u host.Unit) string {
	if name := nameOf(u); name != "" {
		return name
	}
	return string(u)
}

const (
	goodRuns  = "; the last known good configuration runs"
	goodFails = " (also with the last known good configuration)"
)

func (l *lane) explain(err error) reason {
	switch p, partial := errors.AsType[*Partial](err); {
	case err == nil:
		return reason{}
	case errors.Is(err, host.ErrNotInstalled) && l.unit == "":
		return reason{sentence: plain(err.Error())}
	case errors.Is(err, host.ErrNotInstalled):
		return reason{sentence: displayName(l.unit) + " is not installed."}
	case errors.Is(err, db.ErrNewerSchema):
		return reason{sentence: db.ErrNewerSchema.Message}
	case unread(err) && db.Away(err):
		return reason{sentence: "The database is unavailable."}
	case partial:
		sentences := make([]string, len(p.Problems))
		for i, problem := range p.Problems {
			sentences[i] = plain(problem)
		}
		return reason{sentence: strings.Join(sentences, " ")}
	}
	text := err.Error()
	cause, runs := strings.CutSuffix(strings.TrimSuffix(text, goodFails), goodRuns)
	return reason{sentence: l.sentence(err, cause) + map[bool]string{true: " The last known good configuration runs."}[runs], detail: text}
}

func (l *lane) sentence(err error, cause string) string {
	if inUse := l.inUse(cause); inUse != "" {
		return inUse
	}
	if unread(err) {
		return "The saved configuration cannot be read."
	}
	if strings.HasPrefix(cause, "rendering: ") {
		return "The saved configuration cannot be rendered."
	}
	if strings.HasPrefix(cause, "installing ") {
		return plain("a file of the configuration cannot be written: " + cause[strings.LastIndex(cause, ": ")+2:])
	}
	if words := daemonMessage(cause); words != cause {
		return plain(displayName(l.unit) + " does not run: " + words)
	}
	return plain(cause)
}

var (
	taken = regexp.MustCompile(`(?i)address already in use|could not open ports`)
	// port matches how daemons name a port: "port 53", or after an address.
	port = regexp.MustCompile(`(?i)(?:port |\d+\.\d+\.\d+\.\d+:|[*\]]:)([1-9]\d{0,4})\b`)
)

// inUse names the programs that have the ports the daemon wants, if that is its complaint.
func (l *lane) inUse(cause string) string {
	if !taken.MatchString(cause) {
		return ""
	}
	var ports []int
	for _, m := range port.FindAllStringSubmatch(cause, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil && !slices.Contains(ports, n) {
			ports = append(ports, n)
		}
	}
	if spec, err := l.unit.Spec(); err == nil && len(ports) == 0 {
		ports = spec.Ports
	}
	var sentences []string
	for _, n := range ports {
		users, err := l.engine.host.PortUsers(n)
		if err != nil {
			l.engine.log.Warn("finding the users of a port failed", "component", l.id, "err", err)
		}
		for _, u := range users {
			sentences = append(sentences, u.String())
		}
	}
	return strings.Join(sentences, " ")
}

var (
	// service matches what systemd puts before the daemon's message.
	service = regexp.MustCompile(`^[\w@-]+\.service did not \w+: job \w+(: result [\w-]+, status \d+)?: `)
	// ends matches the exit status of a process.
	ends = regexp.MustCompile(`^exit status \d+: `)
	// head matches what a daemon puts before its message: a time, its name and process, and the severity.
	head = regexp.MustCompile(`^(?:\[\d+\]|[\w-]+\[[\d:]+\]:?|\[?(?i:fatal error|fatal|error|alert|critical)\]? *:?|\(\d+\) :|config :) *`)
	// path matches a file name, and perhaps a line number.
	path = regexp.MustCompile(`(?:/[\w.+@-]+){2,}(?:[:(]\d+\)?)?:? ?`)
)

// daemonMessage strips all prefixes from a daemon's output, and returns its last line that is not empty.
func daemonMessage(text string) string {
	words := service.ReplaceAllString(text, "")
	if words = ends.ReplaceAllString(words, ""); words == text {
		return text
	}
	lines := strings.Split(words, "; ")
	for {
		last := lines[len(lines)-1]
		for rest := head.ReplaceAllString(last, ""); rest != last; rest = head.ReplaceAllString(last, "") {
			last = rest
		}
		if lines = lines[:len(lines)-1]; last != "" || len(lines) == 0 {
			return last
		}
	}
}

// plain turns a program's message into a sentence for everyone.
func plain(text string) string {
	text = strings.TrimSpace(path.ReplaceAllString(text, ""))
	text = strings.TrimRight(text, ".:; ")
	first, size := utf8.DecodeRuneInString(text)
	if size == 0 {
		return "It failed."
	}
	word, _, _ := strings.Cut(text, " ")
	if name := nameOf(host.Unit(word)); name != "" {
		text = name + text[len(word):]
	} else {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	return text + "."
}
