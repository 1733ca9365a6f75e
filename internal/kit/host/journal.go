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

// JournalQuery says which lines are wanted, and of which sources.
type JournalQuery struct {
	Sources []LogSource
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
	if len(q.Sources) == 0 {
		return errors.New("a query of the journal needs a source")
	}
	for _, v := range q.Sources {
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

// JournalEntry is an entry of a source.
type JournalEntry struct {
	At     time.Time
	Cursor string
	Source LogSource
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

// Journal reads the logs of daemons.
type Journal interface {
	// SearchJournal tells what matches, newest first, batch by batch, and how far it has come; a batch may be empty. It returns when there is
	// nothing older, the limit is reached or the context ends.
	SearchJournal(ctx context.Context, q JournalQuery, sink func(batch []JournalEntry, at JournalPlace)) error
	// FollowJournal tells what matches and was said since a moment, oldest first, and then what is said, until the context ends.
	FollowJournal(ctx context.Context, q JournalQuery, sink func(batch []JournalEntry)) error
}

var journalVerbs = daemon.Verbs{
	"SearchJournal": daemon.Served, "FollowJournal": daemon.Served,
}

// JournalFilter picks the lines that a query asks for.
type JournalFilter struct {
	query    JournalQuery
	services map[string][]LogSource
	requests map[LogSource]*bool // by source, as LogSourceSpec has it
	words    [][]byte
	lower    []byte
}

// NewJournalFilter is the filter of a query that was checked.
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

// JournalLine is a line of the journal, before anything is known about it.
type JournalLine struct {
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

// Match tells whether the query asks for a line, and what is known about it then.
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
		if told, ok := Worded(whole); ok {
			level = told
		}
	}
	if level > f.query.Level {
		return JournalEntry{}, false
	}
	return JournalEntry{At: line.At, Cursor: line.Cursor, Source: source, Level: level, Text: text, Cut: line.Cut}, true
}

// has tells whether all words are in a text.
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
