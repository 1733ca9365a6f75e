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

	"edge.internal/gateway/internal/kit/host/daemon"
)

// Level is a severity. Lower levels are more severe.
type Level int

// Each level covers some of the journal's priorities: 0 to 3, 4, 5 and 6, 7.
const (
	LevelError Level = iota
	LevelWarn
	LevelInfo
	LevelDebug
)

// Priority returns the least severe of the journal's priorities at this level.
func (l Level) Priority() int { return []int{3, 4, 6, 7}[l] }

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
	// LongestText is how many bytes of a message are kept and searched. Some programs log megabytes at once.
	LongestText = 8 << 10
	// LongestField is how many bytes of a field are kept.
	LongestField = 256
	// longestWord limits a search word, in bytes.
	longestWord = 1 << 10
)

type JournalQuery struct {
	Sources []LogSource
	// Level is the least severe level to include.
	Level Level
	// Words must all be in the text. Case does not matter.
	Words []string
	// Since and Until are inclusive; zero for no bound.
	Since, Until time.Time
	// Before is the cursor of the previous page's last line: only older lines match. Empty starts at the end.
	Before string
	// Limit ends a search after this many matches; 0 for no limit.
	Limit int
}

var journalCursor = regexp.MustCompile(`^[a-z]=[0-9a-f]{1,32}(;[a-z]=[0-9a-f]{1,32}){0,15}$`)

// Check returns what is wrong with a query. The helper relies on it, because callers choose every field.
func (q JournalQuery) Check() error {
	if len(q.Sources) == 0 {
		return errors.New("a journal query needs at least one source")
	}
	for _, v := range q.Sources {
		if _, err := v.Spec(); err != nil {
			return err
		}
	}
	if q.Level < LevelError || q.Level > LevelDebug {
		return fmt.Errorf("unknown log level %d", q.Level)
	}
	if len(q.Words) > 4 {
		return errors.New("a journal query may have at most four words")
	}
	for _, w := range q.Words {
		if len(w) > longestWord {
			return fmt.Errorf("a search word may have at most %d bytes", longestWord)
		}
	}
	if q.Before != "" && !journalCursor.MatchString(q.Before) {
		return errors.New("not a journal cursor")
	}
	return nil
}

// JournalEntry is a log line that matches a query.
type JournalEntry struct {
	At     time.Time
	Cursor string
	Source LogSource
	Level  Level
	Text   string
	Cut    bool
	// Fields are further details, such as the unit and the pid.
	Fields []JournalField
}

type JournalField struct{ Name, Value string }

// JournalPlace is how far a search has come: it has examined everything newer.
type JournalPlace struct {
	Cursor string
	At     time.Time
}

type Journal interface {
	// SearchJournal delivers matches, newest first, in batches with the place that the search has reached; a batch may be empty. It
	// returns when no older lines are left, the limit is reached or the context ends.
	SearchJournal(ctx context.Context, q JournalQuery, sink func(batch []JournalEntry, at JournalPlace)) error
	// FollowJournal delivers matches since q.Since, oldest first, and then new ones until the context ends.
	FollowJournal(ctx context.Context, q JournalQuery, sink func(batch []JournalEntry)) error
}

var journalVerbs = daemon.Verbs{
	"SearchJournal": daemon.Served, "FollowJournal": daemon.Served,
}

// JournalFilter matches lines against a query. It is not safe for concurrent use.
type JournalFilter struct {
	query    JournalQuery
	services map[string][]LogSource
	requests map[LogSource]*bool // LogSourceSpec.Requests by source
	words    [][]byte
	lower    []byte
}

// NewJournalFilter expects a query that Check has accepted.
func NewJournalFilter(q JournalQuery) *JournalFilter {
	f := &JournalFilter{query: q, services: map[string][]LogSource{}, requests: map[LogSource]*bool{}}
	for _, v := range q.Sources {
		spec, _ := v.Spec()
		f.requests[v] = spec.Requests
		for _, s := range spec.Services {
			f.services[s] = append(f.services[s], v)
		}
		if spec.Slice != "" {
			f.services[spec.Slice] = append(f.services[spec.Slice], v)
		}
	}
	for _, w := range q.Words {
		f.words = append(f.words, []byte(strings.ToLower(w)))
	}
	return f
}

type JournalLine struct {
	At     time.Time
	Cursor string
	// Of are the services and slices that may have logged it.
	Of [3]string
	// Priority is the journal's; negative if the line has none.
	Priority int
	// Plain is set if the program wrote the line to its output, so that only the text can tell its severity.
	Plain bool
	Text  []byte
	Cut   bool
}

// Match returns the entry for a line if the query selects it.
func (f *JournalFilter) Match(line JournalLine) (JournalEntry, bool) {
	if !f.query.Since.IsZero() && line.At.Before(f.query.Since) || !f.query.Until.IsZero() && line.At.After(f.query.Until) {
		return JournalEntry{}, false
	}
	text := Readable(line.Text)
	requests := false
	var source LogSource
	for _, of := range line.Of {
		for _, v := range f.services[of] {
			wants := f.requests[v]
			if wants != nil {
				requests = isRequest(text)
			}
			if wants == nil || *wants == requests {
				source = v
			}
		}
		if source != "" {
			break
		}
	}
	if source == "" {
		return JournalEntry{}, false
	}
	level := LevelInfo
	if line.Priority >= 0 {
		level = LevelOf(line.Priority)
	}
	whole := text
	if requests {
		text = WithoutQueries(text)
	}
	if !f.has(text) {
		return JournalEntry{}, false
	}
	if line.Plain {
		if worded, ok := TextLevel(whole); ok {
			level = worded
		}
	}
	if level > f.query.Level {
		return JournalEntry{}, false
	}
	return JournalEntry{At: line.At, Cursor: line.Cursor, Source: source, Level: level, Text: text, Cut: line.Cut}, true
}

// has reports whether a text has all the words. The ASCII path avoids an allocation per line.
func (f *JournalFilter) has(text string) bool {
	if len(f.words) == 0 {
		return true
	}
	f.lower = f.lower[:0]
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
		f.lower = append(f.lower, c)
	}
	if !plain {
		f.lower = append(f.lower[:0], strings.ToLower(text)...)
	}
	return !slices.ContainsFunc(f.words, func(w []byte) bool { return !bytes.Contains(f.lower, w) })
}

// Readable replaces what is not text, and characters that could change how the rest is displayed.
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
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200e || r == 0x200f: // changes the direction of what follows
			return utf8.RuneError
		}
		return r
	}, string(b))
}

// requestStatus returns the status in a line of HAProxy's request log: client, time, frontend, backend and server, times, status.
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

// WithoutQueries removes the query strings from a request line, because they hold people's tokens and searches.
func WithoutQueries(text string) string {
	if !strings.Contains(text, "?") {
		return text
	}
	return queries.ReplaceAllString(text, "?…")
}

// levelWords are the words with which programs state the severity of a message.
var levelWords = map[string]Level{
	"fatal": LevelError, "panic": LevelError, "alert": LevelError, "emerg": LevelError, "crit": LevelError, "critical": LevelError, "error": LevelError, "err": LevelError,
	"warning": LevelWarn, "warn": LevelWarn, "notice": LevelInfo, "info": LevelInfo, "auth": LevelInfo, "debug": LevelDebug, "trace": LevelDebug,
}

// levelWithin is how many bytes from the start of a text may hold such a word.
const levelWithin = 160

// TextLevel returns the severity that the text of a message states. ok is false if it states none.
func TextLevel(text string) (level Level, ok bool) {
	if status, is := requestStatus(text); is {
		if status[0] == '5' || status[0] == '-' {
			return LevelError, true
		}
		return LevelInfo, true
	}
	if len(text) > levelWithin {
		text = text[:levelWithin]
	}
	// HAProxy states no level in its messages about servers.
	switch {
	case strings.Contains(text, " has no server available"):
		return LevelError, true
	case strings.HasPrefix(text, "Server ") && strings.Contains(text, " is DOWN"):
		return LevelWarn, true
	}
	// The word is in an attribute, in brackets, at the beginning, or after the time and the program's name.
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

// levelWord returns the level that a text begins with.
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
	// A word of a sentence is not a level: "an error occurred". A level is in capitals or followed by punctuation, msg= or
	// "error:".
	if ok && n < len(text) && text[n] == ' ' && text[0] >= 'a' && !strings.HasPrefix(text[n:], " msg=") && !strings.HasPrefix(text[n:], " error:") {
		return LevelInfo, false
	}
	return level, ok
}
