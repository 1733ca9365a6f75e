package logs

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
)

// pieceSize is how much of a file is read at once.
const pieceSize = 256 << 10

// errPlace means that a cursor was tampered with.
var errPlace = errors.New("the cursor has no such place")

// form parses a line of a file into its time, text and level. A line without a time belongs to the one before.
type form func(line string) (at time.Time, text string, level host.Level)

var forms = map[host.Log]form{
	squid.AccessLog:      squidLine,
	freeradius.ServerLog: radiusLine,
	freeradius.Logins:    loginLine,
}

// squidLine parses squid's native format: seconds since 1970, milliseconds, client, result and status, bytes, method, URL and more.
func squidLine(line string) (time.Time, string, host.Level) {
	stamp, text, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseFloat(stamp, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, line, host.LevelInfo
	}
	level := host.LevelInfo
	if f := strings.Fields(text); len(f) > 2 {
		switch _, status, _ := strings.Cut(f[2], "/"); {
		case strings.HasPrefix(status, "5"):
			level = host.LevelError
		case strings.HasPrefix(f[2], "TCP_DENIED"):
			level = host.LevelWarn
		}
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC(), host.WithoutQueries(strings.TrimSpace(text)), level
}

// radiusLine parses a line of FreeRADIUS's own log.
func radiusLine(line string) (time.Time, string, host.Level) {
	stamp, text, ok := strings.Cut(line, " : ")
	at, err := time.ParseInLocation(time.ANSIC, stamp, time.Local)
	if !ok || err != nil {
		return time.Time{}, line, host.LevelInfo
	}
	level, _ := host.TextLevel(line)
	return at.UTC(), text, level
}

// loginLine parses a line about a login attempt, in the gateway's own format.
func loginLine(line string) (time.Time, string, host.Level) {
	f := strings.Split(line, "|")
	if len(f) != 6 {
		return time.Time{}, line, host.LevelInfo
	}
	seconds, err := strconv.ParseInt(f[0], 10, 64)
	user, bad := hex.DecodeString(f[4])
	if err != nil || bad != nil {
		return time.Time{}, line, host.LevelInfo
	}
	text, level := fmt.Sprintf("%s for %s, asked by %s", f[2], strings.TrimSpace(string(user)), f[1]), host.LevelInfo
	if f[2] != "Access-Accept" {
		level = host.LevelWarn
	}
	return time.Unix(seconds, 0).UTC(), text, level
}

// readFile reads a file backwards from its end.
func (r *Room) readFile(ctx context.Context, f filter, l host.Log, from string, emit func(step)) error {
	var at host.LogPlace
	if from != "" {
		if _, err := fmt.Sscanf(from, "%d:%d", &at.File, &at.Offset); err != nil || at.Offset < 0 {
			return errPlace
		}
	}
	newer := f.until
	for ctx.Err() == nil {
		piece, err := r.Host.ReadLogBefore(l, at, pieceSize)
		if err != nil {
			return err
		}
		s := step{place: placeOf(piece.From)}
		lines := parseLines(l, piece, newer)
		for i := len(lines) - 1; i >= 0; i-- {
			x := lines[i]
			if !f.since.IsZero() && x.Time.Before(f.since) {
				if len(s.entries) > 0 {
					emit(s)
				}
				return nil
			}
			s.at, newer = x.Time, x.Time
			if (f.until.IsZero() || !x.Time.After(f.until)) && f.wants(x.Text, x.level) {
				s.entries = append(s.entries, x.found)
			}
		}
		if !piece.More {
			if len(s.entries) > 0 {
				emit(s)
			}
			return nil
		}
		emit(s)
		at = piece.From
	}
	return nil
}

func placeOf(p host.LogPlace) string { return fmt.Sprintf("%d:%d", p.File, p.Offset) }

// readLine is a parsed line of a file.
type readLine struct {
	found
	level host.Level
}

// parseLines parses the lines of a piece, oldest first. Lines without a time before the first line with one belong to an entry in a piece
// that is not read yet; they get the time of that first line, or else the given one.
func parseLines(l host.Log, piece host.LogPiece, otherwise time.Time) []readLine {
	var list []readLine
	at, untimed := time.Time{}, 0
	offset := piece.From.Offset
	for line := range bytes.Lines(piece.Lines) {
		place := placeOf(host.LogPlace{File: piece.From.File, Offset: offset})
		offset += int64(len(line))
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}
		cut := len(line) > host.LongestText
		if cut {
			line = line[:host.LongestText]
		}
		stamp, text, level := forms[l](host.Readable(line))
		switch {
		case !stamp.IsZero():
			if at.IsZero() {
				for i := range list[:untimed] {
					list[i].Time = stamp
				}
			}
			at = stamp
		case at.IsZero():
			untimed++
		}
		list = append(list, readLine{found{Entry{
			ID: string(l) + "/" + place, Time: at, Source: sourceOf[string(l)], Level: levels[level], Text: text, Cut: cut, Fields: map[string]string{"file": string(l)},
		}, place}, level})
	}
	if at.IsZero() {
		for i := range list {
			list[i].Time = otherwise
		}
	}
	return list
}

// followFile checks every second for additions to a file.
func (r *Room) followFile(ctx context.Context, f filter, l host.Log, emit func(Entry)) error {
	var seen host.LogPlace
	first := true
	for {
		piece, err := r.Host.ReadLogBefore(l, host.LogPlace{}, pieceSize)
		if err == nil && piece.To != seen {
			for _, x := range parseLines(l, piece, r.Clock.Now().UTC()) {
				var at host.LogPlace
				_, _ = fmt.Sscanf(x.place, "%d:%d", &at.File, &at.Offset)
				known := at.File == seen.File && at.Offset < seen.Offset
				if !known && (!first || !x.Time.Before(f.since)) && f.wants(x.Text, x.level) {
					emit(x.Entry)
				}
			}
			seen = piece.To
		}
		first = false
		select {
		case <-ctx.Done():
			return nil
		case <-r.Clock.After(pollEvery):
		}
	}
}

// followers returns a follower for each kind of selected source.
func (r *Room) followers(f filter, who actor.Actor) []func(ctx context.Context, emit func(Entry)) error {
	var list []func(ctx context.Context, emit func(Entry)) error
	if sources := f.logSources(); len(sources) > 0 {
		list = append(list, func(ctx context.Context, emit func(Entry)) error { return r.followJournal(ctx, f, sources, emit) })
	}
	for _, s := range f.sources {
		for _, l := range s.files {
			list = append(list, func(ctx context.Context, emit func(Entry)) error { return r.followFile(ctx, f, l, emit) })
		}
		if s.audit {
			list = append(list, func(ctx context.Context, emit func(Entry)) error { return r.followAudit(ctx, f, who, emit) })
		}
	}
	return list
}
