package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/rescue"
)

// Result is the result of an upload to one target.
type Result struct {
	RemoteID   uuid.UUID `json:"remote_id" doc:"Which target."`
	Name       string    `json:"name" doc:"Its name."`
	TargetURL  string    `json:"target_url" doc:"Where it is."`
	OK         bool      `json:"ok" doc:"Whether the archive exists."`
	Error      string    `json:"error" doc:"What went wrong; empty when nothing did."`
	Warning    string    `json:"warning" doc:"Other problems, for example when deleting old archives."`
	File       string    `json:"file" doc:"What the archive is called there."`
	Sent       int64     `json:"sent" doc:"Bytes of the archive sent so far."`
	Attempts   int       `json:"attempts" doc:"How often it was tried."`
	Deleted    int       `json:"deleted" doc:"How many older archives of this gateway were deleted there."`
	FinishedAt time.Time `json:"finished_at" doc:"When it was resolved."`
	DurationMS int64     `json:"duration_ms" doc:"How long it took."`
}

// atOnce is how many uploads run at the same time.
const atOnce = 4

// UploadAll sends a finished archive to every active target, and reports its progress.
func (r *Room) UploadAll(ctx context.Context, a backup.Archive, report func([]backup.UploadResult)) []backup.UploadResult {
	// The name has the host already; the time sorts it, and the id tells archives of the same second apart.
	name := a.MadeAt.UTC().Format("20060102T150405Z") + "-" + a.ID.String()[28:] + a.Name[max(0, strings.LastIndex(a.Name, ".tar")):]
	results, err := r.Upload(ctx, a.Path, name, a.Size, a.SHA256, func(so []Result) { report(views(so)) })
	if err != nil {
		r.Log.Error("the off-site targets cannot be read, so nothing was sent to them", "err", err)
	}
	return views(results)
}

// views converts results to what a backup displays.
func views(results []Result) []backup.UploadResult {
	list := make([]backup.UploadResult, len(results))
	for i, x := range results {
		list[i] = backup.UploadResult{RemoteID: x.RemoteID, Target: x.TargetURL, Status: "running", Sent: x.Sent, DurationMS: x.DurationMS}
		if x.FinishedAt.IsZero() {
			continue
		}
		if list[i].FinishedAt, list[i].Status = &x.FinishedAt, "success"; !x.OK {
			list[i].Status, list[i].Error = "failed", x.Error
		}
	}
	return list
}

// reportEvery is how often the progress of uploads is reported.
const reportEvery = 250 * time.Millisecond

// Upload sends an archive to every active target, reports progress repeatedly, and returns the result of each. A failed upload does not
// affect the others. The error is about the database, without which no target is known.
func (r *Room) Upload(ctx context.Context, file, name string, size int64, sum string, report func([]Result)) ([]Result, error) {
	rows, err := r.remotes.Where(ctx, r.DB, "active")
	if err != nil || len(rows) == 0 {
		return []Result{}, err
	}
	there := r.own() + name
	results, sent := make([]Result, len(rows)), make([]meter, len(rows))
	for i := range rows {
		results[i] = Result{RemoteID: rows[i].ID, Name: rows[i].Label(), TargetURL: rows[i].Settings.url(rows[i].Kind), File: there}
	}
	report(slices.Clone(results))
	f, damaged := verified(file, size, sum)
	if f != nil {
		defer f.Close()
	}
	if !fileForm.MatchString(there) {
		damaged = failed(true, "the archive has a name that a target cannot have")
	}
	type ended struct {
		at     int
		result Result
	}
	over := make(chan ended)
	var group errgroup.Group
	group.SetLimit(atOnce)
	go func() {
		for i := range rows {
			group.Go(func() error {
				result := r.send(ctx, &rows[i], results[i], func() (*io.SectionReader, error) {
					sent[i].Store(0)
					return io.NewSectionReader(metered{f, &sent[i]}, 0, size), damaged
				})
				result.Sent = sent[i].Load()
				over <- ended{i, result}
				return nil
			})
		}
	}()
	every := time.NewTicker(reportEvery)
	defer every.Stop()
	so := slices.Clone(results)
	for left := len(rows); left > 0; {
		select {
		case x := <-over:
			so[x.at], left = x.result, left-1
		case <-every.C:
			for i := range so {
				if so[i].FinishedAt.IsZero() {
					so[i].Sent = sent[i].Load()
				}
			}
		}
		report(slices.Clone(so))
	}
	return so, group.Wait()
}

// meter counts the bytes read from an archive.
type meter = atomic.Int64

// metered is a file that counts the bytes read: what is read for an upload is about to be sent.
type metered struct {
	io.ReaderAt
	to *meter
}

func (m metered) ReadAt(b []byte, at int64) (int, error) {
	n, err := m.ReaderAt.ReadAt(b, at)
	for end := at + int64(n); ; {
		was := m.to.Load()
		if end <= was || m.to.CompareAndSwap(was, end) {
			return n, err
		}
	}
}

// verified opens an archive, and makes sure that it is still what was made.
func verified(file string, size int64, sum string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, failed(true, "the archive cannot be read")
	}
	h := sha256.New()
	if n, err := io.Copy(h, f); err != nil || n != size || hex.EncodeToString(h.Sum(nil)) != sum {
		return f, failed(true, "the archive on the disk is not what was written, so it was not sent")
	}
	return f, nil
}

// send sends an archive to one target, and stores the result in its row.
func (r *Room) send(ctx context.Context, v *Remote, result Result, open func() (*io.SectionReader, error)) Result {
	start := r.Clock.Now()
	var err error
	for ; ; result.Attempts++ {
		if result.Attempts > 0 && !r.rest(ctx, r.bounds.again[result.Attempts-1]) {
			break
		}
		var from *io.SectionReader
		if from, err = open(); err == nil {
			err = r.attempt(ctx, v, from, &result)
		}
		if err == nil || explain(err).lasting || result.Attempts == len(r.bounds.again) {
			result.Attempts++
			break
		}
	}
	result.FinishedAt = r.Clock.Now()
	result.DurationMS = result.FinishedAt.Sub(start).Milliseconds()
	result.OK = err == nil
	if err != nil {
		result.Error = explain(err).sentence
		r.Log.Warn("an archive was not sent to an off-site target", "target", v.ID, "reason", result.Error, "attempts", result.Attempts)
	}
	// The result must be stored even if the caller is gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.bounds.ask)
	defer cancel()
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		tx.Queue("UPDATE backup_remotes SET last_error = $2, last_upload_at = CASE WHEN $2 = '' THEN $3 ELSE last_upload_at END WHERE id = $1", v.ID, result.Error, result.FinishedAt)
		return nil
	})
	if err := errors.Join(err, r.report(ctx, v, result)); err != nil {
		r.Log.Error("the result of an upload was not stored", "target", v.ID, "err", err)
	}
	return result
}

// UploadFailed is raised for a target.
var UploadFailed = &alarm.Kind{
	Name: "backup.upload_failed", Severity: alarm.Error, Mutable: true, Meaning: "A backup did not reach one of the off-site targets.",
}

// Alarms lists the kinds that this room reports.
var Alarms = []*alarm.Kind{UploadFailed}

// report raises the alarm of a target after a failed upload, and clears it after a successful one.
func (r *Room) report(ctx context.Context, v *Remote, result Result) error {
	if result.OK {
		return r.Alarms.Clear(ctx, UploadFailed, v.ID.String())
	}
	return r.Alarms.Raise(ctx, alarm.Alarm{
		Kind: UploadFailed, Key: v.ID.String(), Subject: "A backup did not reach " + result.Name, Message: "The upload to " + result.TargetURL + " failed: " + result.Error,
	})
}

// rest waits, and reports whether the wait was completed.
func (r *Room) rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-r.Clock.After(d):
		return true
	}
}

// attempt sends an archive once, and then deletes the oldest ones beyond the limit.
func (r *Room) attempt(ctx context.Context, v *Remote, from *io.SectionReader, result *Result) (err error) {
	defer rescue.Into(&err, r.Log, "off-site targets")
	ctx, cancel := context.WithTimeout(ctx, r.bounds.within(from.Size()))
	defer cancel()
	t, err := r.connect(ctx, v, maxAnswer+from.Size()/64)
	if err != nil {
		return err
	}
	defer t.close()
	// A service that refuses an upload may hang up before it says why. A small request first reveals the reason.
	if _, err := t.list(ctx, r.own()); err != nil {
		return err
	}
	if err := t.put(ctx, result.File, from); err != nil {
		return err
	}
	if result.Deleted, err = r.prune(ctx, t, result.File, v.Keep); err != nil {
		// The archive has arrived, which is what matters.
		result.Warning = "older archives were not deleted: " + explain(err).sentence
	}
	return nil
}

// prune deletes this gateway's oldest archives beyond the limit, and leftovers of its interrupted uploads. The one just sent stays,
// whatever the target claims about its age.
func (r *Room) prune(ctx context.Context, t target, sent string, keep int) (deleted int, err error) {
	own, err := t.list(ctx, r.own())
	if err != nil {
		return 0, err
	}
	own = slices.DeleteFunc(own, func(e entry) bool { return e.name == sent || !r.mine(e.name) })
	slices.SortFunc(own, newestFirst)
	for _, e := range own[min(len(own), keep-1):] {
		if err := t.remove(ctx, e.name); err != nil {
			return deleted, err
		}
		deleted++
	}
	left, err := t.list(ctx, "."+r.own())
	if err != nil {
		return deleted, err
	}
	for _, e := range left {
		name, is := strings.CutSuffix(strings.TrimPrefix(e.name, "."), ".part")
		if is && r.mine(name) && r.Clock.Now().Sub(e.modified) > leftAfter {
			if err := t.remove(ctx, e.name); err != nil {
				return deleted, err
			}
		}
	}
	return deleted, nil
}

// leftAfter is the age at which a partial file is considered abandoned.
const leftAfter = 48 * time.Hour

// mine reports whether a file was named by this gateway.
func (r *Room) mine(name string) bool {
	return fileForm.MatchString(name) && strings.HasPrefix(name, r.own())
}

// newestFirst sorts by the target's time, then by name.
func newestFirst(a, b entry) int {
	if c := b.modified.Compare(a.modified); c != 0 {
		return c
	}
	return strings.Compare(b.name, a.name)
}
