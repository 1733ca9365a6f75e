package logs

import (
	"context"
	"slices"
	"sync"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/httpd"
)

const (
	// pageBytes ends a page with fewer entries.
	pageBytes = 4 << 20
	// ahead is how many steps a reader may be ahead of the merge.
	ahead = 4
)

// found is an entry, with the place to continue behind it.
type found struct {
	Entry
	place string
}

// step is what a reader has found since the last step. Everything newer than at was read, and place is where at is.
type step struct {
	entries []found
	at      time.Time
	place   string
}

// reader reads one log backwards, newest first, and ends when there is nothing older. Cursors refer to it by name.
type reader struct {
	name string
	read func(ctx context.Context, from string, emit func(step)) error
}

// track is the progress of a reader.
type track struct {
	reader
	steps chan step
	// queue has the entries that are not on a page yet.
	queue []found
	// at and place are the position of the reader, and used is the place behind its last entry on the page.
	at          time.Time
	place, used string
	ended       bool
	err         error // valid after it has ended
}

// search merges what all readers find.
func (r *Room) search(ctx context.Context, f filter, who actor.Actor) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	leave, ok := r.searching.take(ctx, who.UserID)
	if !ok {
		return Page{}, tooBusy
	}
	defer leave()
	var tracks []*track
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, rd := range r.readers(f, who) {
		t := &track{reader: rd, steps: make(chan step, ahead), place: f.from[rd.name], used: f.from[rd.name]}
		tracks = append(tracks, t)
		if t.place == over {
			t.ended = true
			continue
		}
		running.Go(func() {
			defer close(t.steps)
			err := t.read(ctx, t.used, func(s step) {
				select {
				case t.steps <- s:
				case <-ctx.Done():
				}
			})
			if ctx.Err() == nil {
				t.err = err
			}
		})
	}
	return f.merge(ctx, tracks)
}

// merge repeatedly takes the newest entry of all.
func (f filter) merge(ctx context.Context, tracks []*track) (Page, error) {
	page := Page{Entries: []Entry{}, Errors: []Failure{}}
	size := 0
	for len(page.Entries) < f.limit && size < pageBytes {
		for _, t := range tracks {
			t.fill(ctx)
		}
		next := newest(tracks)
		if next == nil {
			break
		}
		if waiting := latest(tracks); waiting != nil && (waiting.at.IsZero() || next.queue[0].Time.Before(waiting.at)) {
			break // the search timed out, and something newer may still be found
		}
		e := next.queue[0]
		next.queue, next.used = next.queue[1:], e.place
		page.Entries = append(page.Entries, e.Entry)
		size += len(e.Text)
	}
	full := len(page.Entries) == f.limit || size >= pageBytes
	at, more := places{}, false
	for _, t := range tracks {
		switch {
		case len(t.queue) > 0:
			at[t.name], more = t.used, true
		case t.ended:
			at[t.name] = over
		default:
			at[t.name], more = t.place, true
		}
		if t.ended && t.err != nil {
			page.Errors = append(page.Errors, Failure{Source: t.name, Error: httpd.Problem(ctx, "This source", t.err)})
		}
	}
	if !more {
		return page, nil
	}
	page.Partial = !full
	page.SearchedTo = f.searchedTo(page.Entries, tracks, full)
	var err error
	page.Cursor, err = f.cursor(at)
	return page, err
}

// searchedTo returns the time down to which nothing is missing.
func (f filter) searchedTo(entries []Entry, tracks []*track, full bool) *time.Time {
	at := f.until
	if full {
		at = entries[len(entries)-1].Time
	} else if t := latest(tracks); t != nil {
		at = t.at
	}
	if at.IsZero() {
		return nil
	}
	return &at
}

// fill waits until the track has an entry or will have none.
func (t *track) fill(ctx context.Context) {
	for len(t.queue) == 0 && !t.ended {
		// What has already arrived counts, even after the timeout.
		select {
		case s, ok := <-t.steps:
			t.take(s, ok)
			continue
		default:
		}
		select {
		case s, ok := <-t.steps:
			t.take(s, ok)
		case <-ctx.Done():
			return
		}
	}
}

func (t *track) take(s step, ok bool) {
	if !ok {
		t.ended = true
		return
	}
	t.queue, t.place = s.entries, s.place
	if !s.at.IsZero() {
		t.at = s.at
	}
}

// newest returns the track with the newest entry.
func newest(tracks []*track) *track {
	var best *track
	for _, t := range tracks {
		if len(t.queue) > 0 && (best == nil || t.queue[0].Time.After(best.queue[0].Time)) {
			best = t
		}
	}
	return best
}

// latest returns the track without entries that has made the least progress; nil if there is none.
func latest(tracks []*track) *track {
	var least *track
	for _, t := range tracks {
		if len(t.queue) == 0 && !t.ended && (least == nil || t.at.IsZero() || !least.at.IsZero() && t.at.After(least.at)) {
			least = t
		}
	}
	return least
}

// readers returns the readers of the selected sources.
func (r *Room) readers(f filter, who actor.Actor) []reader {
	var list []reader
	if sources := f.logSources(); len(sources) > 0 {
		list = append(list, reader{"journal", func(ctx context.Context, from string, emit func(step)) error {
			return r.readJournal(ctx, f, sources, from, emit)
		}})
	}
	for _, s := range f.sources {
		for _, l := range s.files {
			list = append(list, reader{string(l), func(ctx context.Context, from string, emit func(step)) error {
				return r.readFile(ctx, f, l, from, emit)
			}})
		}
		if s.audit {
			list = append(list, reader{"audit", func(ctx context.Context, from string, emit func(step)) error {
				return r.readAudit(ctx, f, who, from, emit)
			}})
		}
	}
	return list
}

// follow sends the newest entries, oldest first, and then each new one.
func (r *Room) follow(ctx context.Context, f filter, who actor.Actor, send func(Entry) error) error {
	leave, ok := r.following.try(who.UserID)
	if !ok {
		return followedEnough
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := r.Clock.Now()
	page, err := r.search(ctx, f, who)
	if err != nil {
		return err
	}
	// Entries logged while the snapshot is read may be in both.
	known := map[string]bool{}
	slices.Reverse(page.Entries)
	for _, e := range page.Entries {
		if !e.Time.Before(begun.Add(-overlap)) {
			known[e.ID] = true
		}
		if err := send(e); err != nil {
			return err
		}
	}
	f.since, f.from = begun.Add(-overlap), nil
	heard := make(chan Entry, 64)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	for _, follower := range r.followers(f, who) {
		running.Go(func() {
			err := follower(ctx, func(e Entry) {
				select {
				case heard <- e:
				case <-ctx.Done():
				}
			})
			if err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-heard:
			if known[e.ID] {
				continue
			}
			if err := send(e); err != nil {
				return err
			}
		}
	}
}

// overlap is how much earlier than the snapshot following begins, because entries reach the journal a little late.
const overlap = 2 * time.Second
