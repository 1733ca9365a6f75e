package apply

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"edge.internal/gateway/internal/kit/changes"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/parts"
	"edge.internal/gateway/internal/kit/rescue"
)

const (
	// recordEvery is how long the history waits for more entries, so that one transaction stores them all.
	recordEvery = 200 * time.Millisecond
	recordAgain = 2 * time.Second
	// recordMost limits the entries that wait for an unavailable database. The oldest are dropped.
	recordMost = 4096
	// diffMost limits the size of a stored diff, and compareMost that of files that are compared.
	diffMost, compareMost = 128 << 10, 32 << 20
)

// entry says how a component applied revisions, with the files before and after.
type entry struct {
	changes.Apply
	was, now []host.File
}

// joins reports whether two steps become one entry.
func (t *entry) joins(next *entry) bool {
	return t.Component == next.Component && t.Way == changes.Runtime && next.Way == changes.Runtime && t.State == next.State && t.Error == next.Error && t.now == nil && next.now == nil && next.First == t.Revision+1
}

// record queues an entry for the history without blocking.
func (e *Engine) record(t entry) {
	e.recording.Lock()
	defer e.recording.Unlock()
	if n := len(e.unrecorded); n > 0 && e.unrecorded[n-1].joins(&t) {
		last := &e.unrecorded[n-1]
		last.Revision, last.EndedAt, last.DurationMS = t.Revision, t.EndedAt, max(last.DurationMS, t.DurationMS)
		return
	}
	e.unrecorded = append(e.unrecorded, t)
	e.unrecorded = e.unrecorded[max(0, len(e.unrecorded)-recordMost):]
	select {
	case e.unsaved <- struct{}{}:
	default:
	}
}

// remember writes queued entries until ctx ends.
func (e *Engine) remember(ctx context.Context) {
	for pause := recordEvery; ; {
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = e.write(ending) // the last entries would otherwise be lost
			return
		case <-e.unsaved:
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if pause = recordEvery; e.write(ctx) != nil {
			pause = recordAgain
		}
	}
}

// write stores the queued entries. If that fails, they stay queued.
func (e *Engine) write(ctx context.Context) (err error) {
	defer rescue.Into(&err, e.log, "the history")
	e.recording.Lock()
	list := e.unrecorded
	e.unrecorded = nil
	e.recording.Unlock()
	if len(list) == 0 {
		return nil
	}
	applies := make([]changes.Apply, len(list))
	for i := range list {
		if list[i].now != nil {
			list[i].Files, list[i].was, list[i].now = e.differences(list[i].was, list[i].now), nil, nil
		}
		applies[i] = list[i].Apply
	}
	if err = e.changes.Applied(ctx, applies); err != nil {
		e.recording.Lock()
		e.unrecorded = slices.Concat(list, e.unrecorded)
		e.unrecorded = e.unrecorded[max(0, len(e.unrecorded)-recordMost):]
		e.recording.Unlock()
		select {
		case e.unsaved <- struct{}{}:
		default:
		}
	}
	return err
}

// differences returns the diffs of files, without what is redacted.
func (e *Engine) differences(was, now []host.File) []changes.File {
	before := map[host.Place]host.File{}
	for _, f := range was {
		before[f.Place] = f
	}
	var list []changes.File
	for _, f := range now {
		old, there := before[f.Place]
		delete(before, f.Place)
		if there && old.Same(f) {
			continue
		}
		path := e.host.Path(f.Place)
		text := "The file is too large to be compared.\n"
		from, to := "before"+path, "after"+path
		if old.Parts != nil && f.Parts != nil && f.Redact == nil {
			text = differenceOfParts(from, to, old.Parts, f.Parts)
		} else if other := old.Text(); len(other)+len(f.Text()) < compareMost {
			text = difference(f, from, to, other, false)
		}
		list = append(list, changes.File{Path: path, Diff: short(text)})
	}
	for _, f := range was {
		if _, gone := before[f.Place]; gone {
			list = append(list, changes.File{Path: e.host.Path(f.Place), Diff: "The file was removed.\n"})
		}
	}
	return list
}

// difference returns the diff of a file against other content, redacted. With secret, a file with redacted content is always
// reported as different in that.
func difference(f host.File, from, to string, other []byte, secret bool) string {
	content := f.Text()
	diff := udiff.Unified(from, to, visible(f, other), visible(f, content))
	if diff == "" && (secret && f.Redact != nil || !bytes.Equal(other, content)) {
		diff = udiff.Unified(from, to, "", "What is not shown differs.\n")
	}
	return diff
}

// beside is how many unchanged parts on each side of a difference are diffed. They have at least as many lines as the context of
// a diff.
const beside = udiff.DefaultContextLines

// differenceOfParts returns the diff of two texts. It reads only the parts that differ and those beside them.
func differenceOfParts(from, to string, was, now parts.Text) string {
	diff := udiff.UnifiedDiff{From: from, To: to}
	longer := 0 // number of lines by which the new text is longer so far
	regions := parts.Regions(was, now)
	for len(regions) > 0 {
		r := regions[0]
		for regions = regions[1:]; len(regions) > 0 && regions[0].Was[0]-r.Was[1] <= 2*beside; regions = regions[1:] {
			r.Was[1], r.Now[1] = regions[0].Was[1], regions[0].Now[1]
		}
		before, behind := min(beside, r.Was[0]), min(beside, len(was)-r.Was[1])
		old := string(was[r.Was[0]-before : r.Was[1]+behind].Bytes())
		edits := udiff.Lines(old, string(now[r.Now[0]-before:r.Now[1]+behind].Bytes()))
		u, err := udiff.ToUnifiedDiff(from, to, old, edits, udiff.DefaultContextLines)
		if err != nil {
			return "" // cannot happen: the edits are of this very text
		}
		above := was[:r.Was[0]-before].Lines()
		for _, h := range u.Hunks {
			h.FromLine += above
			h.ToLine = h.FromLine + longer
			for _, line := range h.Lines {
				switch line.Kind {
				case udiff.Insert:
					longer++
				case udiff.Delete:
					longer--
				}
			}
		}
		diff.Hunks = append(diff.Hunks, u.Hunks...)
	}
	return diff.String()
}

// short truncates a diff that is too long to store.
func short(diff string) string {
	if len(diff) <= diffMost {
		return diff
	}
	cut := strings.LastIndexByte(diff[:diffMost], '\n') + 1
	return diff[:cut] + "The rest is not kept.\n"
}

// recordPass records a pass if it changed something or ended differently than the one before.
func (l *lane) recordPass(start time.Time, was []host.File, now *target, installed bool) {
	s := l.snapshot()
	l.mu.Lock()
	news := s.State != l.recorded.State || s.LastError != l.recorded.LastError
	first := l.recorded.Revision + 1
	if l.recorded.Revision == 0 || first > now.revision {
		first = 0
	}
	l.recorded = Status{State: s.State, LastError: s.LastError, Revision: now.revision}
	l.mu.Unlock()
	if now.revision == 0 || s.State == Pending || !installed && (!news || s.State == Live && now.way == "") {
		return
	}
	t := entry{Apply: changes.Apply{Component: string(l.id), First: first, Revision: now.revision, EndedAt: l.engine.clock.Now(), Way: way(now.way), State: string(s.State), Error: s.LastError}}
	t.DurationMS = t.EndedAt.Sub(start).Milliseconds()
	if installed {
		t.was, t.now = was, now.files
	}
	l.engine.record(t)
}

func (l *lane) recordStep(start time.Time, revision int64) {
	now := l.engine.clock.Now()
	l.mu.Lock()
	l.recorded = Status{State: Live, Revision: revision}
	l.mu.Unlock()
	l.engine.record(entry{Apply: changes.Apply{Component: string(l.id), First: revision, Revision: revision, EndedAt: now, DurationMS: now.Sub(start).Milliseconds(), Way: changes.Runtime, State: string(Live)}})
}

func way(w string) string {
	if w == "" {
		return changes.None
	}
	return w
}
