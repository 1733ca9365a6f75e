package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/backup/archive"
	"edge.internal/gateway/internal/backup/recovery"
	"edge.internal/gateway/internal/backup/restore"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/job"
	"edge.internal/gateway/internal/kit/secret"
)

// Plan describes what a restore would do.
type Plan struct {
	Host          string             `json:"host" doc:"Name of the machine that was backed up."`
	ThisHost      string             `json:"this_host" doc:"Name of this machine."`
	MadeAt        time.Time          `json:"made_at" doc:"When the backup was made."`
	Version       string             `json:"version" doc:"Version of the gateway that was backed up."`
	ThisVersion   string             `json:"this_version" doc:"Version of this gateway."`
	SchemaVersion int64              `json:"schema_version" doc:"Version of the schema of its database."`
	ThisSchema    int64              `json:"this_schema" doc:"Schema version of this gateway. An older database is migrated to it."`
	Key           string             `json:"key" enum:"same,carried,other" doc:"The master key that encrypts its secrets. same: the one of this machine. carried: another one, included in the backup. other: an unknown one, so every secret must be entered again."`
	Rows          int64              `json:"rows" doc:"Rows of its database."`
	Interfaces    []PlannedInterface `json:"interfaces" doc:"Interfaces that its configuration speaks of."`
	Links         []string           `json:"links" doc:"Interfaces that this machine has."`
	Files         []string           `json:"files" doc:"State files that it has."`
	Missing       []string           `json:"missing" doc:"State files that are not in the backup and are removed from this machine."`
	Warnings      []string           `json:"warnings" doc:"What to know before you restore it."`
	Blockers      []string           `json:"blockers" doc:"Why it cannot be restored; empty when it can."`
}

type PlannedInterface struct {
	Name string `json:"name" doc:"Its name in the backup."`
	Here bool   `json:"here" doc:"Whether this machine has one of that name."`
}

type planIn struct {
	ID   uuid.UUID `path:"id"`
	Body *Key
}

func (r *Room) plan(c *httpd.Call, in planIn) (Plan, error) {
	_, p, _, err := r.look(c, in.ID, in.Body)
	return p, err
}

// look opens a backup, and plans its restore.
func (r *Room) look(ctx context.Context, id uuid.UUID, given *Key) (b Backup, p Plan, passphrase string, err error) {
	if b, err = r.complete(id); err != nil {
		return b, p, "", err
	}
	if passphrase, err = r.passphrase(ctx, given); err != nil {
		return b, p, "", err
	}
	p, err = r.planned(ctx, b, passphrase)
	return b, p, passphrase, err
}

// planned reads a whole backup, and compares it with this machine.
func (r *Room) planned(ctx context.Context, b Backup, passphrase string) (Plan, error) {
	f, size, err := recovery.OpenFile(r.archiveAt(b.ID))
	if err != nil {
		return Plan{}, err
	}
	defer f.Close()
	m, err := archive.Verify(f, size, passphrase)
	p := Plan{ThisHost: r.Host.Facts().Hostname, ThisVersion: r.Version, Interfaces: []PlannedInterface{}, Links: []string{}, Files: []string{}, Missing: []string{}, Warnings: []string{}, Blockers: []string{}}
	if errors.Is(err, archive.ErrDamaged) {
		p.Blockers = append(p.Blockers, sentence(err))
	} else if err != nil {
		return Plan{}, refused(err)
	}
	if p.ThisSchema, _, err = db.Newest(r.deps.Migrations); err != nil {
		return Plan{}, err
	}
	p.Host, p.MadeAt, p.Version, p.SchemaVersion = m.Host, m.CreatedAt, m.Version, m.Schema
	for _, t := range m.Tables {
		p.Rows += t.Rows
	}
	if err := recovery.CheckSchema(m, r.deps.Migrations); err != nil && len(p.Blockers) == 0 {
		p.Blockers = append(p.Blockers, sentence(err))
	}
	if r.deps.MayRestore != nil {
		if err := r.deps.MayRestore(ctx); err != nil {
			p.Blockers = append(p.Blockers, sentence(err))
		}
	}
	r.planFiles(&p, m)
	p.Key = "same"
	if m.KeyID != r.Secrets.KeyID() {
		p.Key = "other"
		if m.Has(archive.MasterKey) {
			p.Key = "carried"
			p.Warnings = append(p.Warnings, "The backup contains another master key, which replaces the one of this machine.")
		} else {
			p.Warnings = append(p.Warnings, "The secrets in the backup are encrypted with a master key that this machine does not have. Enter the keys of certificates and tunnels, passwords and tokens again. Until then, whatever needs them does not work.")
		}
	}
	if m.Host != p.ThisHost {
		p.Warnings = append(p.Warnings, fmt.Sprintf("The backup is from another machine, %s.", m.Host))
	}
	if m.Schema < p.ThisSchema {
		p.Warnings = append(p.Warnings, fmt.Sprintf("The backup is from an older version, %s. Its database is migrated.", m.Version))
	}
	return p, r.planLinks(ctx, &p, m)
}

func (r *Room) planFiles(p *Plan, m archive.Manifest) {
	for _, name := range archive.Names() {
		if m.Has(name) {
			p.Files = append(p.Files, name)
		} else if _, err := os.Stat(r.path(name)); err == nil && name != archive.MasterKey {
			p.Missing = append(p.Missing, name)
		}
	}
	for _, part := range m.Parts {
		if part.Name != archive.Database && !slices.Contains(p.Files, part.Name) {
			p.Files = append(p.Files, part.Name)
		}
	}
}

// planLinks compares the interfaces of a backup with those of the machine.
func (r *Room) planLinks(ctx context.Context, p *Plan, m archive.Manifest) error {
	links, err := r.Host.Links(ctx)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Name != "lo" {
			p.Links = append(p.Links, l.Name)
		}
	}
	slices.Sort(p.Links)
	var absent []string
	for _, name := range m.Interfaces {
		here := slices.Contains(p.Links, name)
		p.Interfaces = append(p.Interfaces, PlannedInterface{name, here})
		if !here {
			absent = append(absent, name)
		}
	}
	if len(absent) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("This machine has no interface %s. Choose an interface to replace it, or its configuration does not run.", strings.Join(absent, ", ")))
	}
	return nil
}

// RestoreWish says how to restore a backup.
type RestoreWish struct {
	Passphrase secret.Text       `json:"passphrase,omitzero" doc:"Opens an encrypted backup. By default the passphrase in the settings is tried."`
	Interfaces map[string]string `json:"interfaces" doc:"Interface of this machine for each interface in the backup."`
}

func (r *Room) restore(c *httpd.Call, in struct {
	ID   uuid.UUID `path:"id"`
	Body *RestoreWish
}) (Restore, error) {
	wish := RestoreWish{}
	if in.Body != nil {
		wish = *in.Body
	}
	return r.beginRestore(c, in.ID, wish)
}

// beginRestore starts root's restore job, unless something prevents it.
func (r *Room) beginRestore(c *httpd.Call, id uuid.UUID, wish RestoreWish) (Restore, error) {
	b, p, passphrase, err := r.look(c, id, &Key{wish.Passphrase})
	if err != nil {
		return Restore{}, err
	}
	if len(p.Blockers) > 0 {
		return Restore{}, fault.New(fault.Conflict, "%s", strings.Join(p.Blockers, " "))
	}
	if err := checkInterfaces(p, wish.Interfaces); err != nil {
		return Restore{}, err
	}
	end, err := r.begin("The beginning of a restore")
	if err != nil {
		return Restore{}, err
	}
	defer end()
	err = r.Audit.Do(c, "backup.restore", b.File, func() (any, error) {
		return map[string]any{"host": p.Host, "made_at": p.MadeAt}, unable(restore.Job.Begin(c, r.Host, restore.Wish{Backup: b.ID.String(), Interfaces: wish.Interfaces}, passphrase))
	})
	if err != nil {
		return Restore{}, err
	}
	return r.last(c.Actor)
}

// checkInterfaces refuses interfaces that the backup or the machine lacks, and one that is assigned twice.
func checkInterfaces(p Plan, wanted map[string]string) error {
	taken := map[string]string{}
	for _, i := range p.Interfaces {
		name := i.Name
		if to, ok := wanted[i.Name]; ok {
			name = to
			if !slices.Contains(p.Links, to) {
				return fault.Field("interfaces."+i.Name, "must be an interface of this machine: %s", strings.Join(p.Links, ", "))
			}
		}
		if other, ok := taken[name]; ok {
			at, by := i.Name, other
			if _, ok := wanted[at]; !ok { // report the name from the request
				at, by = by, at
			}
			return fault.Field("interfaces."+at, "must be another interface: %s already replaces %s of the backup", name, by)
		}
		taken[name] = i.Name
	}
	for name := range wanted {
		if !slices.ContainsFunc(p.Interfaces, func(i PlannedInterface) bool { return i.Name == name }) {
			return fault.Field("interfaces."+name, "is not an interface in the backup")
		}
	}
	return nil
}

// unable explains to the caller why the machine refused.
func unable(err error) error {
	if errors.Is(err, host.ErrNotInstalled) {
		return fault.Wrap(fault.NotSupported, err, "This gateway was not installed from a package, so it cannot restore itself.")
	}
	return job.Restore.Conflict(err)
}

// Restore is the running or the last restore.
type Restore struct {
	job.View
	BackupID string     `json:"backup_id" doc:"Id of the backup."`
	State    string     `json:"state" enum:"none,running,done,refused,taken_back,stuck" doc:"Progress. refused: nothing was changed. taken_back: the previous data was restored. stuck: restoring the previous data failed as well."`
	Host     string     `json:"host" doc:"Name of the machine that was backed up; empty until it is known."`
	MadeAt   *time.Time `json:"made_at" doc:"When the backup was made."`
	Warnings []string   `json:"warnings" doc:"What to do yourself afterwards."`
	Steps    []Step     `json:"steps" doc:"Steps in order. A step that was interrupted and repeated is listed again."`
}

type Step struct {
	Name string `json:"name" enum:"verify,load,check,swap,confirm,return,recover" doc:"Step. swap replaces the data while the gateway's programs are stopped; confirm waits until they work; return and recover roll back."`
	job.StepView
}

// last returns the running or the last restore, as the reader may see it.
func (r *Room) last(reader actor.Actor) (Restore, error) {
	last, err := restore.Job.Last(r.Host)
	if errors.Is(err, fs.ErrNotExist) {
		return Restore{State: "none", View: job.View{Summary: "The gateway has not been restored yet."}, Steps: []Step{}, Warnings: []string{}}, nil
	}
	if err != nil {
		return Restore{}, fmt.Errorf("reading the last restore: %w", err)
	}
	all := reader.Role == actor.Admin
	out := Restore{
		View: last.View(summary(last), all), BackupID: last.Backup, State: string(last.State), Host: last.Host, MadeAt: job.Moment(last.MadeAt), Warnings: []string{},
		Steps: job.Views(last.Record, all, func(name string, v job.StepView) Step { return Step{name, v} }),
	}
	if all {
		out.Warnings = append(out.Warnings, last.Warnings...)
	}
	return out, nil
}

func summary(l restore.Restore) string {
	what := "a backup"
	if !l.MadeAt.IsZero() {
		what = fmt.Sprintf("the backup of %s from %s", l.Host, l.MadeAt.Format("2006-01-02 15:04 MST"))
	}
	switch l.State {
	case job.Running:
		return "The gateway is being restored from " + what + "."
	case job.Done:
		return "The gateway was restored from " + what + "."
	case job.Refused:
		return "The restore from " + what + " did not start. Nothing was changed."
	case job.TakenBack:
		return "The gateway did not work with " + what + ". The previous data was restored."
	}
	return "The restore from " + what + " failed, and so did the return to the previous data. See the log of the restore."
}

// noted is the file with the id of the restore that the audit log already has.
const noted = "restore-noted"

// note writes an audit entry about a restore into the restored data: the entry written at its start was lost with the old data.
func (r *Room) note(ctx context.Context) {
	last, err := restore.Job.Last(r.Host)
	if err != nil || last.State == job.Running {
		return
	}
	path := r.Paths.State(noted)
	if known, _ := os.ReadFile(path); string(known) == last.ID {
		return
	}
	ctx = actor.With(ctx, actor.System("gateway-restore"))
	err = r.Audit.Do(ctx, "backup.restored", last.Backup, func() (any, error) {
		return map[string]any{"state": string(last.State), "host": last.Host, "made_at": last.MadeAt}, secret.Save(path, []byte(last.ID))
	})
	if err != nil {
		r.Log.Warn("the audit log has no entry about the last restore", "err", err)
	}
}
