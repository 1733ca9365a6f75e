// Package jobs stores the wishes (requests) for jobs, starts their units, and reads their progress. The root helper does nothing more
// for a client: what a wish says is checked by the job.
package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/files"
	"edge.internal/gateway/internal/kit/job"
)

// Starter starts the unit of a job without waiting for it.
type Starter interface {
	Begin(ctx context.Context, n job.Name) error
}

type Jobs struct {
	home  home.Home
	units Starter
}

// New accepts nil units; then no job can begin.
func New(h home.Home, units Starter) *Jobs { return &Jobs{h, units} }

// Open opens the folder of a job. Its group is the gateway's, except below a root folder, where there is no such group.
func Open(h home.Home, n job.Name) (job.Folder, error) {
	gid := -1
	if h.Root == "" {
		var err error
		if _, gid, err = files.LookupOwner(host.User, host.User); err != nil {
			return job.Folder{}, err
		}
	}
	return job.OpenFolder(h.Root, n, gid)
}

const wishLimit = 64 << 10 // bytes

// plainName is the form of a wish's field names. It keeps out a second spelling of id, such as ID.
var plainName = regexp.MustCompile(`^[a-z_]+$`)

// complete gives a wish its id and its time. The job checks the other fields.
func complete(wish []byte) (map[string]any, error) {
	var fields map[string]any
	if len(wish) > wishLimit {
		return nil, fmt.Errorf("a wish of %d bytes is too long", len(wish))
	}
	if err := json.Unmarshal(wish, &fields); err != nil || fields == nil {
		return nil, errors.Join(errors.New("a wish is a JSON object"), err)
	}
	for name := range fields {
		if !plainName.MatchString(name) {
			return nil, fmt.Errorf("a wish has no field %.40q", name)
		}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	fields["id"], fields["at"] = id.String(), time.Now().UTC()
	return fields, nil
}

// BeginJob stores the wish and starts the unit of the job.
func (j *Jobs) BeginJob(ctx context.Context, n job.Name, wish []byte, secret string) error {
	if j.units == nil || j.home.Foreign || !n.Wished() {
		return fmt.Errorf("this machine has no unit %.40q: %w", string(n), host.ErrNotInstalled)
	}
	fields, err := complete(wish)
	if err != nil {
		return err
	}
	folder, err := Open(j.home, n)
	if err == nil {
		err = folder.Wish(fields)
	}
	if n.Runs(err) {
		return errors.Join(err, j.units.Begin(ctx, n)) // an interrupted job continues
	}
	if err != nil {
		return err
	}
	if n == job.Restore {
		err = folder.Keep(job.Passphrase, []byte(secret))
	}
	if err == nil {
		err = j.units.Begin(ctx, n)
	}
	if err != nil {
		return errors.Join(err, folder.Remove(job.Passphrase), folder.Unwish())
	}
	return nil
}

func (j *Jobs) ReadJob(n job.Name) (wish, record []byte, err error) {
	read := func(path string) []byte {
		if path == "" || err != nil {
			return nil
		}
		var content []byte
		if content, err = os.ReadFile(j.home.Path(path)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return content
	}
	// The record first: a job that ends in between removes its wish last.
	record = read(n.RecordFile())
	return read(n.WishFile()), record, err
}

// EndJob removes the wish with this id; a newer wish stays.
func (j *Jobs) EndJob(_ context.Context, n job.Name, id string) error {
	if n != job.Repair {
		return fmt.Errorf("the job %.40q ends when its program does", string(n))
	}
	wish, err := n.Wish(j)
	if errors.Is(err, fs.ErrNotExist) || err == nil && wish.ID != id {
		return nil
	}
	if err != nil {
		return err
	}
	folder, err := Open(j.home, n)
	if err != nil {
		return err
	}
	return folder.Unwish()
}
