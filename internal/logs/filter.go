package logs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
)

const (
	// MaxLimit is the maximum number of entries on a page, and pageLimit the default.
	MaxLimit, pageLimit = 1000, 200
	// liveLimit is how many entries a stream begins with.
	liveLimit = 100
	// longestText is the maximum length of a search text.
	longestText = 200
	// longestCursor is longer than any valid cursor.
	longestCursor = 4 << 10
)

// Input has the parameters of a search.
type Input struct {
	Sources string    `query:"sources" doc:"Names of sources, separated by commas; all by default."`
	Level   string    `query:"level" doc:"Lowest level: error, warn, info or debug; all by default."`
	Text    string    `query:"text" doc:"Text in the message, taken literally; case does not matter."`
	Domain  uuid.UUID `query:"domain" doc:"Id of a domain of the reverse proxy: only the lines about its requests."`
	Since   time.Time `query:"since" doc:"Not before this time."`
	Until   time.Time `query:"until" doc:"Not after this time."`
	Limit   *int      `query:"limit" doc:"How many, at most 1000; 200 by default."`
	Cursor  string    `query:"cursor" doc:"The cursor of an earlier page, to read on."`
}

// LiveInput has the parameters of a stream.
type LiveInput struct {
	Sources string    `query:"sources" doc:"Names of sources, separated by commas; all by default."`
	Level   string    `query:"level" doc:"Lowest level: error, warn, info or debug; all by default."`
	Text    string    `query:"text" doc:"Text in the message, taken literally; case does not matter."`
	Domain  uuid.UUID `query:"domain" doc:"Id of a domain of the reverse proxy: only the lines about its requests."`
	Limit   *int      `query:"limit" doc:"How many earlier entries to begin with, at most 1000; 100 without it."`
}

// Validate checks the parameters before a stream is opened.
func (in *LiveInput) Validate() error {
	_, err := in.filter()
	return err
}

// filter is a parsed query.
type filter struct {
	sources      []Source
	level        host.Level
	words        []string
	since, until time.Time
	limit        int
	from         places
}

// places says where to continue, by reader; a missing reader begins at its end.
type places map[string]string

// over is the place of a reader that has nothing older.
const over = "-"

func (in LiveInput) filter() (filter, error) {
	limit := liveLimit
	if in.Limit != nil {
		limit = *in.Limit
	}
	return Input{Sources: in.Sources, Level: in.Level, Text: in.Text, Domain: in.Domain, Limit: &limit}.filter()
}

func (in Input) filter() (filter, error) {
	f := filter{level: host.LevelDebug, since: in.Since, until: in.Until, limit: pageLimit}
	var c check.List
	if in.Sources == "" {
		f.sources = sources
	} else {
		for name := range strings.SplitSeq(in.Sources, ",") {
			i := slices.IndexFunc(sources, func(s Source) bool { return s.Name == name })
			if i < 0 {
				c.Add("sources", "has %q, which is not one of those that GET /logs/sources lists", clipped(name))
			} else if !slices.ContainsFunc(f.sources, func(s Source) bool { return s.Name == name }) {
				f.sources = append(f.sources, sources[i])
			}
		}
	}
	if in.Level != "" {
		f.level = host.Level(slices.Index(levels, in.Level))
		c.That(f.level >= 0, "level", "must be error, warn, info or debug")
	}
	if in.Text != "" {
		f.words = append(f.words, in.Text)
		c.That(len(in.Text) <= longestText, "text", "must have at most %d bytes", longestText)
		c.That(!strings.ContainsFunc(in.Text, unicode.IsControl), "text", "must not have line breaks or other control characters")
	}
	if in.Domain != uuid.Nil {
		f.words = append(f.words, in.Domain.String())
		f.sources = slices.DeleteFunc(slices.Clone(f.sources), func(s Source) bool { return s.Name != requests })
		c.That(len(f.sources) > 0, "domain", "needs the source %s", requests)
	}
	c.That(in.Since.IsZero() || in.Until.IsZero() || !in.Until.Before(in.Since), "until", "must not be before since")
	if in.Limit != nil {
		f.limit = *in.Limit
		c.That(f.limit >= 1 && f.limit <= MaxLimit, "limit", "must be between 1 and %d", MaxLimit)
	}
	if in.Cursor != "" {
		var err error
		if f.from, err = parseCursor(in.Cursor, f.mark()); err != nil {
			c.Add("cursor", "%s", err)
		}
	}
	return f, c.Err()
}

// restrict removes the sources that the reader may not see, and refuses if the reader named one of them.
func (f *filter) restrict(a actor.Actor, named bool) error {
	theirs := open(f.sources, a)
	if named && len(theirs) < len(f.sources) {
		return fault.New(fault.Forbidden, "Some of these logs are for administrators: they may hold secrets.")
	}
	f.sources = theirs
	return nil
}

// clipped shortens a text for an error message.
func clipped(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// mark identifies the filters that a cursor was made for: with others it would skip entries.
func (f filter) mark() string {
	h := sha256.New()
	for _, s := range f.sources {
		fmt.Fprintf(h, "%s,", s.Name)
	}
	fmt.Fprintf(h, "|%d|%q|%d|%d", f.level, f.words, f.since.UnixMicro(), f.until.UnixMicro())
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}

// cursor is what a caller needs to read on.
type cursor struct {
	Mark   string `json:"f"`
	Places places `json:"p"`
}

func (f filter) cursor(at places) (string, error) {
	b, err := json.Marshal(cursor{f.mark(), at})
	return base64.RawURLEncoding.EncodeToString(b), err
}

func parseCursor(text, mark string) (places, error) {
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > longestCursor || json.Unmarshal(b, &c) != nil || c.Places == nil {
		return nil, fmt.Errorf("is not valid. Start without it")
	}
	if c.Mark != mark {
		return nil, fmt.Errorf("belongs to other filters. Start without it")
	}
	return c.Places, nil
}

var (
	// tooBusy is the answer when too many searches run.
	tooBusy = fault.New(fault.Unavailable, "Other searches are reading the logs. Try again in a moment.")
	// followedEnough is the answer when too many streams run.
	followedEnough = fault.New(fault.Unavailable, "The logs are followed at most %d times by one user, and %d times in all. Close a page that follows them, or try again later.", followsEach, follows)
)
