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
	// tellEvery is how long the history waits for more before it writes down what there is: one transaction does for all of it.
	tellEvery = 200 * time.Millisecond
	tellAgain = 2 * time.Second
	// tellMost is how much waits for a database that is away. The oldest is forgotten.
	tellMost = 4096
	// diffMost is how much of a diff is kept, and compareMost how large a file may be to be compared.
	diffMost, compareMost = 128 << 10, 32 << 20
)

// told is how a component took revisions, and the files before and after.
type told struct {
	changes.Apply
	was, now []host.File
}

// joins tells whether two steps are told as one.
func (t *told) joins(next *told) bool {
	return t.Component == next.Component && t.Way == changes.Runtime && next.Way == changes.Runtime && t.State == next.State && t.Error == next.Error && t.now == nil && next.now == nil && next.First == t.Revision+1
}

// tell queues something for the history and does not wait.
func (e *Engine) tell(t told) {
	e.telling.Lock()
	defer e.telling.Unlock()
	if n := len(e.told); n > 0 && e.told[n-1].joins(&t) {
		last := &e.told[n-1]
		last.Revision, last.EndedAt, last.DurationMS = t.Revision, t.EndedAt, max(last.DurationMS, t.DurationMS)
		return
	}
	e.told = append(e.told, t)
	e.told = e.told[max(0, len(e.told)-tellMost):]
	select {
	case e.tells <- struct{}{}:
	default:
	}
}

// remember writes down what is told, until the context ends.
func (e *Engine) remember(ctx context.Context) {
	for pause := tellEvery; ; {
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = e.write(ending) // without it, the report of the last moment is missing
			return
		case <-e.tells:
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if pause = tellEvery; e.write(ctx) != nil {
			pause = tellAgain
		}
	}
}

// write writes down what there is. What cannot be written is kept for the next time.
func (e *Engine) write(ctx context.Context) (err error) {
	defer rescue.Into(&err, e.log, "the history")
	e.telling.Lock()
	list := e.told
	e.told = nil
	e.telling.Unlock()
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
		e.telling.Lock()
		e.told = slices.Concat(list, e.told)
		e.told = e.told[max(0, len(e.told)-tellMost):]
		e.telling.Unlock()
		select {
		case e.tells <- struct{}{}:
		default:
		}
	}
	return err
}

// differences are what people may see of what became of files.
func (e *Engine) differences(was, now []host.File) []changes.File {
	before := map[host.Place]host.File{}
	for _, f := range was {
		before[f.Place] = f
	}
	var list []changes.File
	for _, f := range now {
		old, there := before[f.Place]
		delete(before, f.Place)
		if there && bytes.Equal(old.Content, f.Content) {
			continue
		}
		path := e.host.Path(f.Place)
		text := "The file is too large to be compared.\n"
		switch from, to := "before"+path, "after"+path; {
		case old.Parts != nil && f.Parts != nil && f.Redact == nil:
			text = differenceOfParts(from, to, old.Parts, f.Parts)
		case len(old.Content)+len(f.Content) < compareMost:
			text = difference(f, from, to, old.Content, false)
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

// difference is what people may see of how a file differs from other content. With secret, one that hides something is said to differ
// in that, whether it does or not.
func difference(f host.File, from, to string, other []byte, secret bool) string {
	diff := udiff.Unified(from, to, shown(f, other), shown(f, f.Content))
	if diff == "" && (secret && f.Redact != nil || !bytes.Equal(other, f.Content)) {
		diff = udiff.Unified(from, to, "", "What is not shown differs.\n")
	}
	return diff
}

// beside is how many parts are looked at on each side of one that differs. They have at least as many lines as a diff shows.
const beside = udiff.DefaultContextLines

// differenceOfParts is the diff of two texts, of which it reads the parts that differ and those beside them.
func differenceOfParts(from, to string, was, now parts.Text) string {
	diff := udiff.UnifiedDiff{From: from, To: to}
	longer := 0 // is the new text, by so many lines
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
			return "" // the edits are of this very text
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

// short is a diff that is not too long to be kept.
func short(diff string) string {
	if len(diff) <= diffMost {
		return diff
	}
	cut := strings.LastIndexByte(diff[:diffMost], '\n') + 1
	return diff[:cut] + "The rest is not kept.\n"
}

// tellPass tells of a pass, if there is something to tell: it changed something, or it ended in another way than the one before.
func (l *lane) tellPass(start time.Time, was []host.File, now *imagined, installed bool) {
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
	t := told{Apply: changes.Apply{Component: string(l.id), First: first, Revision: now.revision, EndedAt: l.engine.clock.Now(), Way: way(now.way), State: string(s.State), Error: s.LastError}}
	t.DurationMS = t.EndedAt.Sub(start).Milliseconds()
	if installed {
		t.was, t.now = was, now.files
	}
	l.engine.tell(t)
}

func (l *lane) tellStep(start time.Time, revision int64) {
	now := l.engine.clock.Now()
	l.mu.Lock()
	l.recorded = Status{State: Live, Revision: revision}
	l.mu.Unlock()
	l.engine.tell(told{Apply: changes.Apply{Component: string(l.id), First: revision, Revision: revision, EndedAt: now, DurationMS: now.Sub(start).Milliseconds(), Way: changes.Runtime, State: string(Live)}})
}

func way(w string) string {
	if w == "" {
		return changes.None
	}
	return w
}
