package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/host"
)

// A lab has no journald. The chronicle replaces it: every line that a unit writes, with the time and the unit, so that the
// gateway's logs can be searched and followed in a lab as on a real machine.

const (
	// chronicleSize is the size at which the file is rotated.
	chronicleSize = 16 << 20
	// longestLine is the length at which a line is broken, as by journald.
	longestLine = 48 << 10
	// followBacklog is how many lines followers may be behind before they lose some.
	followBacklog = 4096
	// chronicleBatch is how many entries are passed on at once.
	chronicleBatch = 64
)

// line is one line of the chronicle's file.
type line struct {
	At   int64     `json:"t"` // microseconds; unique, so that it also identifies the line
	Unit host.Unit `json:"u"`
	Text string    `json:"m"`
	Cut  bool      `json:"c,omitempty"`
}

// chronicle keeps the output of all units of a lab.
type chronicle struct {
	file *journal

	mu        sync.Mutex
	last      int64
	followers map[chan line]struct{}
}

func newChronicle(path string) *chronicle {
	c := &chronicle{file: newJournal(path), followers: map[chan line]struct{}{}}
	c.file.most = chronicleSize
	return c
}

func (c *chronicle) of(u host.Unit) io.Writer { return &lineWriter{chronicle: c, unit: u} }

// add appends a line.
func (c *chronicle) add(u host.Unit, text []byte, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, time.Now().UnixMicro())
	l := line{At: c.last, Unit: u, Text: string(text), Cut: cut}
	b, err := json.Marshal(l)
	if err != nil {
		return
	}
	_, _ = c.file.Write(append(b, '\n')) // a full disk must not stop a unit
	for f := range c.followers {
		select {
		case f <- l:
		default: // too slow
		}
	}
}

// lineWriter splits the output of a unit into lines.
type lineWriter struct {
	chronicle *chronicle
	unit      host.Unit

	mu   sync.Mutex
	rest []byte
}

func (s *lineWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		end := bytes.IndexByte(s.rest, '\n')
		switch {
		case end < 0 && len(s.rest) < longestLine:
			return len(p), nil
		case end < 0 || end > longestLine:
			s.emit(s.rest[:longestLine])
			s.rest = s.rest[longestLine:]
		default:
			s.emit(s.rest[:end])
			s.rest = s.rest[end+1:]
		}
	}
}

func (s *lineWriter) emit(text []byte) {
	if text = bytes.TrimRight(text, "\r"); len(text) > 0 {
		s.chronicle.add(s.unit, text[:min(len(text), host.LongestText)], len(text) > host.LongestText)
	}
}

// journal converts a line to one of the journal.
func (l line) journal() host.JournalLine {
	s := host.JournalLine{
		At: time.UnixMicro(l.At).UTC(), Cursor: "t=" + strconv.FormatInt(l.At, 16), Of: [3]string{l.Unit.Service()}, Priority: -1, Plain: true,
		Text: []byte(l.Text), Cut: l.Cut,
	}
	if text, priority, ok := logged(l.Text); ok {
		s.Text, s.Priority, s.Plain = []byte(text), priority, false
	}
	return s
}

// ownLine matches how the gateway's own programs log without a journal.
var ownLine = regexp.MustCompile(`^time=\S+ level=(DEBUG|INFO|WARN|ERROR) msg=("(?:[^"\\]|\\.)*"|\S*) ?`)

// logged converts a line of one of the gateway's own programs to the form that it has in the journal, which has the time and
// level elsewhere.
func logged(text string) (rest string, priority int, ok bool) {
	m := ownLine.FindStringSubmatch(text)
	if m == nil {
		return "", 0, false
	}
	message := m[2]
	if unquoted, err := strconv.Unquote(message); err == nil {
		message = unquoted
	}
	priority = map[string]int{"DEBUG": 7, "INFO": 6, "WARN": 4, "ERROR": 3}[m[1]]
	return strings.TrimSpace(message + " " + text[len(m[0]):]), priority, true
}

// ownFields matches the attributes that the journal also has as fields.
var ownFields = regexp.MustCompile(`\b(component|request_id|actor)=([^\s"]+)`)

func (l line) entry(filter *host.JournalFilter) (host.JournalEntry, bool) {
	in := l.journal()
	e, ok := filter.Match(in)
	if !ok {
		return e, false
	}
	e.Fields = []host.JournalField{{Name: "unit", Value: l.Unit.Service()}, {Name: "transport", Value: "stdout"}}
	if !in.Plain {
		for _, m := range ownFields.FindAllStringSubmatch(e.Text, -1) {
			e.Fields = append(e.Fields, host.JournalField{Name: m[1], Value: m[2]})
		}
	}
	return e, true
}

// SearchJournal reads the chronicle backward.
func (s *supervisor) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	before := int64(0)
	if q.Before != "" {
		var err error
		if before, err = strconv.ParseInt(strings.TrimPrefix(q.Before, "t="), 16, 64); err != nil {
			return errors.New("this is not a cursor of a lab's journal")
		}
	}
	filter := host.NewJournalFilter(q)
	var batch []host.JournalEntry
	var place host.JournalPlace
	found := 0
	pass := func() {
		sink(batch, place)
		batch = batch[:0]
	}
	defer pass()
	for _, path := range []string{s.logs.file.path, s.logs.file.path + ".1"} {
		more, err := backward(path, func(b []byte) bool {
			var l line
			if json.Unmarshal(b, &l) != nil || before != 0 && l.At >= before {
				return ctx.Err() == nil
			}
			in := l.journal()
			if in.At.Before(q.Since) {
				return false
			}
			place = host.JournalPlace{Cursor: in.Cursor, At: in.At}
			if e, ok := l.entry(filter); ok {
				batch = append(batch, e)
				found++
			}
			if len(batch) == chronicleBatch {
				pass()
			}
			return ctx.Err() == nil && (q.Limit == 0 || found < q.Limit)
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// backward calls each with the lines of a file, last one first, until it returns false.
func backward(path string, each func([]byte) bool) (more bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	const piece = 256 << 10
	var rest []byte // the beginning of what has been read, possibly a partial line
	for end := info.Size(); end > 0; {
		from := max(0, end-piece)
		b := make([]byte, end-from, end-from+int64(len(rest)))
		if _, err := f.ReadAt(b, from); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		b = append(b, rest...)
		first := 0
		if from > 0 {
			first = bytes.IndexByte(b, '\n') + 1
		}
		rest = bytes.Clone(b[:first])
		lines := bytes.Split(bytes.TrimSuffix(b[first:], []byte("\n")), []byte("\n"))
		for i := len(lines) - 1; i >= 0; i-- {
			if len(lines[i]) > 0 && !each(lines[i]) {
				return false, nil
			}
		}
		end = from
	}
	return true, nil
}

// FollowJournal passes on the lines since a moment, and then new ones.
func (s *supervisor) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	lines := make(chan line, followBacklog)
	s.logs.mu.Lock()
	s.logs.followers[lines] = struct{}{}
	s.logs.mu.Unlock()
	defer func() {
		s.logs.mu.Lock()
		defer s.logs.mu.Unlock()
		delete(s.logs.followers, lines)
	}()
	var earlier []host.JournalEntry
	newest := int64(0)
	search := q
	search.Before, search.Limit = "", followBacklog
	err := s.SearchJournal(ctx, search, func(batch []host.JournalEntry, _ host.JournalPlace) { earlier = append(earlier, batch...) })
	if err != nil {
		return err
	}
	slices.Reverse(earlier)
	if len(earlier) > 0 {
		newest = earlier[len(earlier)-1].At.UnixMicro()
		sink(earlier)
	}
	filter := host.NewJournalFilter(q)
	for {
		select {
		case <-ctx.Done():
			return nil
		case l := <-lines:
			if l.At <= newest {
				continue
			}
			if e, ok := l.entry(filter); ok {
				sink([]host.JournalEntry{e})
			}
		}
	}
}
