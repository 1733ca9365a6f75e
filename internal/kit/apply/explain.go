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

// reason is why a component is not live.
type reason struct {
	// sentence is for everybody: it names neither files nor what the database was asked.
	sentence string
	// detail are the words of the daemon or the program, where they say more.
	detail string
}

// called is what people call a daemon.
func called(u host.Unit) string {
	if name := nameOf(u); name != "" {
		return name
	}
	return string(u)
}

// nameOf is the name that people have for a daemon; empty where they have none, or where there is no such daemon.
func nameOf(u host.Unit) string {
	spec, _ := u.Spec()
	return spec.Name
}

const (
	goodRuns  = "; the last known good configuration runs"
	goodFails = " (also with the last known good configuration)"
)

// explain says why a pass has failed.
func (l *lane) explain(err error) reason {
	switch p, partial := errors.AsType[*Partial](err); {
	case err == nil:
		return reason{}
	case errors.Is(err, host.ErrNotInstalled) && l.unit == "":
		return reason{sentence: plain(err.Error())}
	case errors.Is(err, host.ErrNotInstalled):
		return reason{sentence: called(l.unit) + " is not installed."}
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
	if words := own(cause); words != cause {
		return plain(called(l.unit) + " does not run: " + words)
	}
	return plain(cause)
}

var (
	taken = regexp.MustCompile(`(?i)address already in use|could not open ports`)
	// port is how daemons name one: "port 53", or behind an address.
	port = regexp.MustCompile(`(?i)(?:port |\d+\.\d+\.\d+\.\d+:|[*\]]:)([1-9]\d{0,4})\b`)
)

// inUse says who has the ports that a daemon wants, if that is what it complains about.
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
			l.engine.log.Warn("who uses a port cannot be found", "component", l.id, "err", err)
		}
		for _, u := range users {
			sentences = append(sentences, u.String())
		}
	}
	return strings.Join(sentences, " ")
}

var (
	// service is what is said about a unit before the words of its daemon.
	service = regexp.MustCompile(`^[\w@-]+\.service did not \w+: job \w+(: result [\w-]+, status \d+)?: `)
	// ended is how a process has ended.
	ends = regexp.MustCompile(`^exit status \d+: `)
	// head is what a daemon puts before its words: a time, its name and process, and how bad it is.
	head = regexp.MustCompile(`^(?:\[\d+\]|[\w-]+\[[\d:]+\]:?|\[?(?i:fatal error|fatal|error|alert|critical)\]? *:?|\(\d+\) :|config :) *`)
	// path is a file of the machine, and perhaps a line in it.
	path = regexp.MustCompile(`(?:/[\w.+@-]+){2,}(?:[:(]\d+\)?)?:? ?`)
)

// own are a daemon's words without all that stands before them: the last of its lines that has some.
func own(text string) string {
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

// plain makes a sentence for everybody of what a program says.
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
