package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/job"
)

// Voice is one whose words the machine keeps: in systemd's journal, or in a lab what its supervisor has heard.
type Voice string

// The voices.
const (
	APIVoice       Voice = "api"
	SchedulerVoice Voice = "scheduler"
	HelperVoice    Voice = "helper"
	WAFVoice       Voice = "waf"
	ProxyVoice     Voice = "proxy"          // what the reverse proxy says about itself
	RequestsVoice  Voice = "proxy-requests" // the requests that it logs
	SquidVoice     Voice = "forward-proxy"
	ResolverVoice  Voice = "dns"
	TimeVoice      Voice = "ntp"
	LeasesVoice    Voice = "dhcp"
	RadiusVoice    Voice = "radius"
	TunnelVoice    Voice = "tunnels"
	DetectionVoice Voice = "ids"
	VRRPVoice      Voice = "vrrp"
	JournalVoice   Voice = "journal"
)

// VoiceSpec is how a voice is known.
type VoiceSpec struct {
	// Services are the units that it is, by systemd's names.
	Services []string
	// Slice is where the units of a template are.
	Slice string
	// Requests says which lines of the reverse proxy are its own: those about requests, or all others. Nil does not ask.
	Requests *bool
}

var yes, no = true, false

// voices is the closed list: the rest of the journal cannot be read.
var voices = map[Voice]VoiceSpec{
	APIVoice:       {Services: services(API)},
	SchedulerVoice: {Services: services(Scheduler)},
	HelperVoice:    {Services: slices.Concat(services(Helper), services(job.Names()...), services("gateway-firewall", "gateway-probe"))}, // systemd alone starts the last two
	WAFVoice:       {Services: services(WAF)},
	ProxyVoice:     {Services: services(HAProxy), Requests: &no},
	RequestsVoice:  {Services: services(HAProxy), Requests: &yes},
	SquidVoice:     {Services: services(Squid)},
	ResolverVoice:  {Services: services(Unbound)},
	TimeVoice:      {Services: services(Chrony)},
	LeasesVoice:    {Services: services(Kea)},
	RadiusVoice:    {Services: services(FreeRADIUS)},
	TunnelVoice:    {Slice: `system-gateway\x2dwireguard.slice`},
	DetectionVoice: {Services: services(CrowdSec, Bouncer)},
	VRRPVoice:      {Services: services(Keepalived)},
	JournalVoice:   {Services: services("systemd-journald")},
}

// Spec returns the voice's entry in the closed list.
func (v Voice) Spec() (VoiceSpec, error) {
	spec, ok := voices[v]
	if !ok {
		return spec, fmt.Errorf("no voice %q in the list", string(v))
	}
	return spec, nil
}

// Level is how much something matters: the less, the more.
type Level int

// The levels, and the journal's priorities that they stand for: 0 to 3, 4, 5 and 6, 7.
const (
	LevelError Level = iota
	LevelWarn
	LevelInfo
	LevelDebug
)

// Priority is the last of the journal's priorities that the level stands for.
func (l Level) Priority() int { return []int{3, 4, 6, 7}[l] }

// LevelOf is the level of one of the journal's priorities.
func LevelOf(priority int) Level {
	switch {
	case priority <= 3:
		return LevelError
	case priority == 4:
		return LevelWarn
	case priority <= 6:
		return LevelInfo
	}
	return LevelDebug
}

const (
	// LongestText is how much of a text is kept and searched; some programs say megabytes at once.
	LongestText = 8 << 10
	// LongestField is how much is kept of what is known about a text.
	LongestField = 256
	// longestWord is how long the words may be that a text is searched for.
	longestWord = 1 << 10
)

// JournalQuery says whose words are wanted, and which.
type JournalQuery struct {
	Voices []Voice
	// Level is the least that matters.
	Level Level
	// Words have to be in a text, all of them, in whatever case.
	Words []string
	// Since and Until are the first and the last moment; zero does not ask.
	Since, Until time.Time
	// Before is where to go on: only what is older than the entry with this cursor. Empty begins at the end.
	Before string
	// Limit ends the search when it has found so many; 0 has no limit.
	Limit int
}

var journalCursor = regexp.MustCompile(`^[a-z]=[0-9a-f]{1,32}(;[a-z]=[0-9a-f]{1,32}){0,15}$`)

// Check says what is wrong with a query.
func (q JournalQuery) Check() error {
	if len(q.Voices) == 0 {
		return errors.New("a query of the journal needs a voice")
	}
	for _, v := range q.Voices {
		if _, err := v.Spec(); err != nil {
			return err
		}
	}
	if q.Level < LevelError || q.Level > LevelDebug {
		return fmt.Errorf("there is no level %d", q.Level)
	}
	if len(q.Words) > 4 {
		return errors.New("a query has at most four words")
	}
	for _, w := range q.Words {
		if len(w) > longestWord {
			return fmt.Errorf("a word of a query has at most %d bytes", longestWord)
		}
	}
	if q.Before != "" && !journalCursor.MatchString(q.Before) {
		return errors.New("this is no cursor of the journal")
	}
	return nil
}

// JournalEntry is something that a voice has said.
type JournalEntry struct {
	At     time.Time
	Cursor string
	Voice  Voice
	Level  Level
	Text   string
	// Cut says that the text was longer.
	Cut bool
	// Fields are what else is known about it.
	Fields []JournalField
}

// JournalField is one thing that is known about an entry.
type JournalField struct{ Name, Value string }

// JournalPlace is how far a search has come: everything newer has been looked at.
type JournalPlace struct {
	Cursor string
	At     time.Time
}

// Journal reads what daemons have said.
type Journal interface {
	// SearchJournal tells what matches, newest first, batch by batch, and how far it has come; a batch may be empty. It returns when there is
	// nothing older, the limit is reached or the context ends.
	SearchJournal(ctx context.Context, q JournalQuery, sink func(batch []JournalEntry, at JournalPlace)) error
	// FollowJournal tells what matches and was said since a moment, oldest first, and then what is said, until the context ends.
	FollowJournal(ctx context.Context, q JournalQuery, sink func(batch []JournalEntry)) error
}

// Ear picks out of what was said what a query asks for.
type Ear struct {
	query    JournalQuery
	services map[string][]Voice
	words    [][]byte
	lower    []byte
}

// NewEar is the ear of a query that was checked.
func NewEar(q JournalQuery) *Ear {
	e := &Ear{query: q, services: map[string][]Voice{}}
	for _, v := range q.Voices {
		for _, s := range voices[v].Services {
			e.services[s] = append(e.services[s], v)
		}
		if slice := voices[v].Slice; slice != "" {
			e.services[slice] = append(e.services[slice], v)
		}
	}
	for _, w := range q.Words {
		e.words = append(e.words, []byte(strings.ToLower(w)))
	}
	return e
}

// Said is something that was said, before anything is known about it.
type Said struct {
	At     time.Time
	Cursor string
	// Of are the services and slices that it may belong to.
	Of [3]string
	// Priority is the journal's; below 0 there is none.
	Priority int
	// Plain says that it was written to an output, where the text alone tells how much it matters.
	Plain bool
	Text  []byte
	Cut   bool
}

// Hear tells whether the query asks for it, and what is known then.
func (e *Ear) Hear(s Said) (JournalEntry, bool) {
	if !e.query.Since.IsZero() && s.At.Before(e.query.Since) || !e.query.Until.IsZero() && s.At.After(e.query.Until) {
		return JournalEntry{}, false
	}
	text := Readable(s.Text)
	requests := false
	var voice Voice
	for _, of := range s.Of {
		for _, v := range e.services[of] {
			wants := voices[v].Requests
			if wants != nil {
				requests = isRequest(text)
			}
			if wants == nil || *wants == requests {
				voice = v
			}
		}
		if voice != "" {
			break
		}
	}
	if voice == "" {
		return JournalEntry{}, false
	}
	level := LevelInfo
	if s.Priority >= 0 {
		level = LevelOf(s.Priority)
	}
	said := text
	if requests {
		text = WithoutQueries(text)
	}
	if !e.has(text) {
		return JournalEntry{}, false
	}
	if s.Plain {
		if told, ok := Worded(said); ok {
			level = told
		}
	}
	if level > e.query.Level {
		return JournalEntry{}, false
	}
	return JournalEntry{At: s.At, Cursor: s.Cursor, Voice: voice, Level: level, Text: text, Cut: s.Cut}, true
}

// has tells whether all words are in a text.
func (e *Ear) has(text string) bool {
	if len(e.words) == 0 {
		return true
	}
	e.lower = e.lower[:0]
	plain := true
	for i := range len(text) {
		c := text[i]
		if c >= utf8.RuneSelf {
			plain = false
			break
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		e.lower = append(e.lower, c)
	}
	if !plain {
		e.lower = append(e.lower[:0], strings.ToLower(text)...)
	}
	return !slices.ContainsFunc(e.words, func(w []byte) bool { return !bytes.Contains(e.lower, w) })
}

// Readable is a text that a person can read, whatever was said: what is no text, and what would change how the rest looks, is
// replaced.
func Readable(b []byte) string {
	plain := true
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return string(b)
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return utf8.RuneError
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f: // turns the direction of what follows
			return utf8.RuneError
		}
		return r
	}, string(b))
}

// requestStatus finds the status in a line that HAProxy writes about a request: client, time, frontend, backend and server, times,
// status.
func requestStatus(text string) (status string, ok bool) {
	client, rest, _ := strings.Cut(text, " [")
	_, rest, ok = strings.Cut(rest, "] ")
	if !ok || strings.ContainsRune(client, ' ') || !strings.ContainsRune(client, ':') {
		return "", false
	}
	_, rest, _ = strings.Cut(rest, " ") // frontend
	backend, rest, _ := strings.Cut(rest, " ")
	times, rest, _ := strings.Cut(rest, " ")
	status, _, ok = strings.Cut(rest, " ")
	if !ok || !strings.ContainsRune(backend, '/') || strings.Count(times, "/") != 4 || strings.Trim(times, "/-+0123456789") != "" {
		return "", false
	}
	return status, status == "-1" || len(status) == 3 && strings.Trim(status, "0123456789") == ""
}

func isRequest(text string) bool {
	_, is := requestStatus(text)
	return is
}

var queries = regexp.MustCompile(`\?[^ "]+`)

// WithoutQueries is a line about a request without what follows the path: people's tokens and searches are there.
func WithoutQueries(text string) string {
	if !strings.Contains(text, "?") {
		return text
	}
	return queries.ReplaceAllString(text, "?…")
}

// levelWords are those by which programs say how much something matters.
var levelWords = map[string]Level{
	"fatal": LevelError, "panic": LevelError, "alert": LevelError, "emerg": LevelError, "crit": LevelError, "critical": LevelError, "error": LevelError, "err": LevelError,
	"warning": LevelWarn, "warn": LevelWarn, "notice": LevelInfo, "info": LevelInfo, "auth": LevelInfo, "debug": LevelDebug, "trace": LevelDebug,
}

// openings is how much of a text is looked at for such words.
const openings = 160

// Worded is how much a text matters in its own words.
func Worded(text string) (Level, bool) {
	if status, is := requestStatus(text); is {
		if status[0] == '5' || status[0] == '-' {
			return LevelError, true
		}
		return LevelInfo, true
	}
	if len(text) > openings {
		text = text[:openings]
	}
	// Of the reverse proxy's words about servers, the level is not told.
	switch {
	case strings.Contains(text, " has no server available"):
		return LevelError, true
	case strings.HasPrefix(text, "Server ") && strings.Contains(text, " is DOWN"):
		return LevelWarn, true
	}
	// The word stands in an attribute, in brackets, at the beginning, or behind the time and the program's name.
	if _, after, ok := strings.Cut(text, "level="); ok {
		if level, ok := levelWord(after); ok {
			return level, true
		}
	}
	if level, ok := levelWord(strings.TrimPrefix(text, "[")); ok {
		return level, true
	}
	for i := range len(text) {
		if c := text[i]; c == ':' || c == '|' || c == ']' {
			if level, ok := levelWord(strings.TrimPrefix(text[i+1:], " ")); ok {
				return level, true
			}
		}
	}
	return LevelInfo, false
}

// levelWord reads the word that a text begins with.
func levelWord(text string) (Level, bool) {
	var word [8]byte
	n := 0
	for ; n < len(text) && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z'); n++ {
		if n == len(word) {
			return LevelInfo, false
		}
		word[n] = text[n] | 0x20
	}
	if n < len(text) && text[n] != ':' && text[n] != ']' && text[n] != ' ' && text[n] != '"' {
		return LevelInfo, false
	}
	level, ok := levelWords[string(word[:n])]
	// In a sentence such a word says nothing: "error" and the like are followed by something else, or all in capitals.
	if ok && n < len(text) && text[n] == ' ' && text[0] >= 'a' && !strings.HasPrefix(text[n:], " msg=") && !strings.HasPrefix(text[n:], " error:") {
		return LevelInfo, false
	}
	return level, ok
}
