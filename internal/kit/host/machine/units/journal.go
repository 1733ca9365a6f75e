package units

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/child"
)

const journalctl = "/usr/bin/journalctl"

// The fields of the journal that are read. journalctl always prints the last three. Command lines are not read: they may hold secrets.
const (
	fieldText      = "MESSAGE"
	fieldPriority  = "PRIORITY"
	fieldUnit      = "_SYSTEMD_UNIT"
	fieldAbout     = "UNIT"
	fieldSlice     = "_SYSTEMD_SLICE"
	fieldTransport = "_TRANSPORT"
	fieldPID       = "_PID"
	fieldBoot      = "_BOOT_ID"
	fieldCursor    = "__CURSOR"
	fieldTime      = "__REALTIME_TIMESTAMP"
)

// shownFields are the fields that people see, and their names there. Each slows a search down: journalctl prints it for every entry.
var shownFields = []struct{ field, name string }{
	{fieldUnit, "unit"}, {fieldAbout, "about"}, {"SYSLOG_IDENTIFIER", "identifier"}, {fieldPID, "pid"}, {fieldTransport, "transport"},
	{"COMPONENT", "component"}, {"REQUEST_ID", "request_id"}, {"ACTOR", "actor"}, {fieldBoot, "boot_id"},
}

// journalFields are the fields that must be requested for a query; journalctl prints the others anyway.
func journalFields(q host.JournalQuery) []string {
	names := []string{fieldText, fieldPriority}
	if slices.ContainsFunc(q.Sources, func(v host.LogSource) bool { spec, _ := v.Spec(); return spec.Slice != "" }) {
		names = append(names, fieldSlice)
	}
	for _, f := range shownFields {
		if f.field != fieldBoot {
			names = append(names, f.field)
		}
	}
	return names
}

// searchArguments make journalctl begin with the newest entry of the range.
func searchArguments(q host.JournalQuery) []string {
	args := []string{"--reverse"}
	if q.Before != "" {
		// journalctl accepts no other start or limit along with a cursor: search itself stops at Since.
		return append(append(args, "--cursor="+q.Before), matches(q)...)
	}
	if !q.Since.IsZero() {
		args = append(args, "--since="+timestamp(q.Since))
	}
	if !q.Until.IsZero() {
		args = append(args, "--until="+timestamp(q.Until))
	}
	return append(args, matches(q)...)
}

func followArguments(q host.JournalQuery) []string {
	return append([]string{"--follow", "--no-tail", "--since=" + timestamp(q.Since)}, matches(q)...)
}

func timestamp(t time.Time) string {
	return fmt.Sprintf("@%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// matches are the terms that select entries by the journal's indexes: those of the units, and systemd's about the units. Standard output
// has the same priority whatever it says, so it is always selected, and its level is read from the text.
func matches(q host.JournalQuery) []string {
	var own, about, templates []string
	for _, v := range q.Sources {
		spec, _ := v.Spec()
		for _, s := range spec.Services {
			own, about = append(own, fieldUnit+"="+s), append(about, fieldAbout+"="+s)
		}
		if spec.Slice != "" {
			templates = append(templates, fieldSlice+"="+spec.Slice)
		}
	}
	var priorities []string
	if q.Level < host.LevelDebug {
		for p := range q.Level.Priority() + 1 {
			priorities = append(priorities, fieldPriority+"="+strconv.Itoa(p))
		}
	}
	var all []string
	either := func(terms ...[]string) {
		if len(terms[0]) == 0 {
			return
		}
		if len(all) > 0 {
			all = append(all, "+")
		}
		for _, t := range terms {
			all = append(all, t...)
		}
	}
	for _, units := range [][]string{own, templates} {
		either(units, priorities)
		if len(priorities) > 0 {
			either(units, []string{fieldTransport + "=stdout"})
		}
	}
	either(about, []string{fieldPID + "=1"}, priorities)
	return all
}

func (Systemd) SearchJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	if err := q.Check(); err != nil {
		return err
	}
	return runJournal(ctx, q, searchArguments(q), func(out io.Reader) error { return search(ctx, out, q, sink) })
}

func (Systemd) FollowJournal(ctx context.Context, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	if err := q.Check(); err != nil {
		return err
	}
	return runJournal(ctx, q, followArguments(q), func(out io.Reader) error { return follow(out, q, sink) })
}

// runJournal runs journalctl until read, which gets its output, returns, or the context ends.
func runJournal(ctx context.Context, q host.JournalQuery, args []string, read func(io.Reader) error) error {
	out, in, err := child.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	var stderr child.Tail
	fields := "--output-fields=" + strings.Join(journalFields(q), ",")
	cmd := exec.Command(journalctl, append([]string{"--quiet", "--no-pager", "--system", "--output=export", fields}, args...)...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, "/"
	cmd.Stdout, cmd.Stderr = in, &stderr
	ended, err := child.Start(cmd, syscall.SIGKILL)
	in.Close()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("journalctl: %w", host.ErrNotInstalled)
	} else if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	err = read(out)
	whole := errors.Is(err, io.EOF)
	if !whole {
		cmd.Process.Kill()
	}
	failed := <-ended
	switch {
	case ctx.Err() != nil || errors.Is(err, errEnough):
		return nil
	case !whole:
		return fmt.Errorf("reading the journal: %w", err)
	case failed != nil:
		return fmt.Errorf("journalctl: %w: %s", failed, stderr.LastLines())
	}
	return nil
}

// errEnough ends a search that is complete before journalctl is.
var errEnough = errors.New("enough")

const (
	// A batch is passed on when it has so many entries or bytes, or after so much time.
	batchEntries = 64
	batchBytes   = 128 << 10
	batchEvery   = 100 * time.Millisecond
	// checkClock is how many entries are read between two checks of the time.
	checkClock = 256
)

// search reads entries, newest first.
func search(ctx context.Context, out io.Reader, q host.JournalQuery, sink func([]host.JournalEntry, host.JournalPlace)) error {
	r, filter := newExport(out, q), host.NewJournalFilter(q)
	var batch []host.JournalEntry
	var place host.JournalPlace
	size, found, last := 0, 0, time.Now()
	pass := func() {
		sink(batch, place)
		batch, size, last = batch[:0], 0, time.Now()
	}
	for n := 1; ; n++ {
		s, err := r.next()
		if err != nil || ctx.Err() != nil {
			pass()
			return cmp.Or(err, ctx.Err())
		}
		if s.Cursor == q.Before && s.Cursor != "" {
			continue
		}
		if !q.Since.IsZero() && s.At.Before(q.Since) {
			pass()
			return errEnough
		}
		place = host.JournalPlace{Cursor: s.Cursor, At: s.At}
		if e, ok := filter.Match(s); ok {
			e.Fields = r.fields()
			batch = append(batch, e)
			size += len(e.Text)
			found++
		}
		switch {
		case q.Limit > 0 && found == q.Limit:
			pass()
			return errEnough
		case len(batch) == batchEntries, size >= batchBytes, n%checkClock == 0 && time.Since(last) > batchEvery:
			pass()
		}
	}
}

// follow reads entries as they come.
func follow(out io.Reader, q host.JournalQuery, sink func([]host.JournalEntry)) error {
	r, filter := newExport(out, q), host.NewJournalFilter(q)
	var batch []host.JournalEntry
	for {
		s, err := r.next()
		if err != nil {
			return err
		}
		if e, ok := filter.Match(s); ok {
			e.Fields = r.fields()
			batch = append(batch, e)
		}
		if len(batch) > 0 && (r.in.Buffered() == 0 || len(batch) == batchEntries) {
			sink(batch)
			batch = batch[:0]
		}
	}
}

// export reads the journal's export format: lines NAME=value or, for binary values, NAME, a length of eight bytes, and the value; an
// empty line ends an entry. Long values are truncated while reading, so that memory stays small.
type export struct {
	in   *bufio.Reader
	text []byte
	cut  bool
	// numbers are the indexes of the wanted fields in values, which holds the current entry and is reused.
	numbers map[string]int
	values  [][]byte
}

// Numbers outside values: the text, and fields that are not wanted.
const (
	numberText = -1 - iota
	numberNone
)

func newExport(r io.Reader, q host.JournalQuery) *export {
	x := &export{in: bufio.NewReaderSize(r, 64<<10), numbers: map[string]int{}}
	for _, name := range append(journalFields(q), fieldBoot, fieldCursor, fieldTime) {
		if name == fieldText {
			x.numbers[name] = numberText
			continue
		}
		x.numbers[name] = len(x.values)
		x.values = append(x.values, nil)
	}
	return x
}

// value returns a field of the current entry; nothing for a field that was not asked for.
func (x *export) value(name string) string {
	if number, ok := x.numbers[name]; ok {
		return string(x.values[number])
	}
	return ""
}

// next reads an entry. Its text is valid until the next call.
func (x *export) next() (host.JournalLine, error) {
	for i, v := range x.values {
		x.values[i] = v[:0]
	}
	x.text, x.cut = x.text[:0], false
	for seen := false; ; {
		line, err := x.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // a long value
		case errors.Is(err, io.EOF) && !seen && len(line) == 0:
			return host.JournalLine{}, io.EOF
		case errors.Is(err, io.EOF):
			return host.JournalLine{}, io.ErrUnexpectedEOF
		case err != nil:
			return host.JournalLine{}, err
		case len(line) == 1 && seen:
			return x.entry()
		case len(line) == 1:
			continue
		}
		seen = true
		more := err != nil
		if !more {
			line = line[:len(line)-1]
		}
		at := bytes.IndexByte(line, '=')
		if at >= 0 {
			number := x.number(line[:at])
			x.keep(number, line[at+1:])
			for more {
				line, err = x.in.ReadSlice('\n')
				more = errors.Is(err, bufio.ErrBufferFull)
				if err != nil && !more {
					return host.JournalLine{}, unexpected(err)
				}
				if !more {
					line = line[:len(line)-1]
				}
				x.keep(number, line)
			}
			continue
		}
		if more {
			return host.JournalLine{}, errors.New("the journal has a field name without an end")
		}
		if err := x.binary(x.number(line)); err != nil {
			return host.JournalLine{}, unexpected(err)
		}
	}
}

// unexpected turns the end of the output into an error, because it came in the middle of an entry.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (x *export) number(name []byte) int {
	if number, ok := x.numbers[string(name)]; ok {
		return number
	}
	return numberNone
}

// binary reads a value that follows its length.
func (x *export) binary(number int) error {
	var head [8]byte
	if _, err := io.ReadFull(x.in, head[:]); err != nil {
		return err
	}
	for left := binary.LittleEndian.Uint64(head[:]); left > 0; {
		piece, err := x.in.Peek(int(min(left, 4<<10)))
		if err != nil {
			return err
		}
		x.keep(number, piece)
		left -= uint64(len(piece))
		if _, err := x.in.Discard(len(piece)); err != nil {
			return err
		}
	}
	_, err := x.in.Discard(1) // the newline after it
	return err
}

// keep adds a piece to a value, up to the value's limit.
func (x *export) keep(number int, piece []byte) {
	switch number {
	case numberNone:
	case numberText:
		room := host.LongestText - len(x.text)
		if len(piece) > room {
			piece, x.cut = piece[:room], true
		}
		x.text = append(x.text, piece...)
	default:
		v := x.values[number]
		x.values[number] = append(v, piece[:min(len(piece), host.LongestField-len(v))]...)
	}
}

func (x *export) entry() (host.JournalLine, error) {
	at, err := strconv.ParseInt(x.value(fieldTime), 10, 64)
	if err != nil {
		return host.JournalLine{}, errors.New("the journal has an entry without a time")
	}
	s := host.JournalLine{
		At: time.UnixMicro(at).UTC(), Cursor: x.value(fieldCursor), Priority: -1, Plain: x.value(fieldTransport) == "stdout",
		Of: [3]string{x.value(fieldUnit), "", x.value(fieldSlice)}, Text: x.text, Cut: x.cut,
	}
	if p, err := strconv.Atoi(x.value(fieldPriority)); err == nil && p >= 0 && p <= 7 {
		s.Priority = p
	}
	// Any process can log a UNIT field; only systemd's is trusted.
	if x.value(fieldPID) == "1" {
		s.Of[1] = x.value(fieldAbout)
	}
	return s, nil
}

// fields returns the shown fields of the current entry.
func (x *export) fields() []host.JournalField {
	var list []host.JournalField
	for _, f := range shownFields {
		if v := x.value(f.field); v != "" {
			list = append(list, host.JournalField{Name: f.name, Value: host.Readable([]byte(v))})
		}
	}
	return list
}
