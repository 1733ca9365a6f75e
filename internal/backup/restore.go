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

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/archive"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/recovery"
	"edge.internal/gateway/internal/kit/secret"
)

// Plan is what a restore would do.
type Plan struct {
	Host          string    `json:"host" doc:"Name of the machine that was backed up."`
	ThisHost      string    `json:"this_host" doc:"Name of this machine."`
	MadeAt        time.Time `json:"made_at" doc:"When the backup was made."`
	Version       string    `json:"version" doc:"Version of the gateway that was backed up."`
	ThisVersion   string    `json:"this_version" doc:"Version of this gateway."`
	SchemaVersion int64     `json:"schema_version" doc:"Version of the schema of its database."`
	ThisSchema    int64     `json:"this_schema" doc:"Version of the schema that this gateway has. An older database is brought up to it."`
	Key           string    `json:"key" enum:"same,carried,other" doc:"The master key that its secrets are sealed with. same: the one of this machine. carried: another one, which the backup carries. other: one that is not known here, so that every secret has to be entered again."`
	Rows          int64     `json:"rows" doc:"Rows of its database."`
	// Interfaces are those that the configuration speaks of.
	Interfaces []PlannedInterface `json:"interfaces" doc:"Interfaces that its configuration speaks of."`
	Links      []string           `json:"links" doc:"Interfaces that this machine has."`
	Files      []string           `json:"files" doc:"State files that it has."`
	Missing    []string           `json:"missing" doc:"State files that it does not have, and that go if this machine has them."`
	Warnings   []string           `json:"warnings" doc:"What is to be known before it is restored."`
	Blockers   []string           `json:"blockers" doc:"Why it cannot be restored; empty when it can."`
}

// PlannedInterface is an interface of a backup.
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

// look opens a backup, and says what a restore of it would do.
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

// planned reads all of a backup, and compares it with this machine.
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
	r.planFiles(&p, m)
	p.Key = "same"
	if m.KeyID != r.Secrets.KeyID() {
		p.Key = "other"
		if m.Has(archive.MasterKey) {
			p.Key = "carried"
			p.Warnings = append(p.Warnings, "The backup comes with another master key, which replaces the one of this machine.")
		} else {
			p.Warnings = append(p.Warnings, "The secrets of the backup are sealed with a master key that this machine does not have. Keys of certificates and tunnels, passwords and tokens have to be entered again; until then what needs them does not run.")
		}
	}
	if m.Host != p.ThisHost {
		p.Warnings = append(p.Warnings, fmt.Sprintf("The backup is of another machine, %s.", m.Host))
	}
	if m.Schema < p.ThisSchema {
		p.Warnings = append(p.Warnings, fmt.Sprintf("The backup is of an older version, %s. Its database is brought up to date.", m.Version))
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
		p.Warnings = append(p.Warnings, fmt.Sprintf("This machine has no interface %s. Say which one takes its place, or what is configured for it does not run.", strings.Join(absent, ", ")))
	}
	return nil
}

// RestoreWish is how a backup is to be restored.
type RestoreWish struct {
	Passphrase secret.Text       `json:"passphrase,omitzero" doc:"Opens an encrypted backup. Without it the passphrase of the settings is tried."`
	Interfaces map[string]string `json:"interfaces" doc:"Which interface of this machine takes the place of one of the backup."`
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

// beginRestore has root restore a backup, unless something stands in its way.
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
		return map[string]any{"host": p.Host, "made_at": p.MadeAt}, unable(r.Host.BeginRestore(c, host.RestoreWish{Backup: b.ID.String(), Interfaces: wish.Interfaces, Passphrase: passphrase}))
	})
	if err != nil {
		return Restore{}, err
	}
	return r.last(c.Actor)
}

// checkInterfaces complains about interfaces that neither the backup nor the machine has, and about one that would be two.
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
			return fault.Field("interfaces."+i.Name, "is %s, which takes the place of %s already", name, other)
		}
		taken[name] = i.Name
	}
	for name := range wanted {
		if !slices.ContainsFunc(p.Interfaces, func(i PlannedInterface) bool { return i.Name == name }) {
			return fault.Field("interfaces."+name, "is no interface of the backup")
		}
	}
	return nil
}

// unable says in the caller's terms why the machine has refused.
func unable(err error) error {
	switch {
	case errors.Is(err, host.ErrRestoreRuns):
		return fault.Wrap(fault.Conflict, err, "A restore is already running. Wait until it has ended.")
	case errors.Is(err, host.ErrUpgradeRuns):
		return fault.Wrap(fault.Conflict, err, "An upgrade is running. Wait until it has ended.")
	case errors.Is(err, host.ErrNotInstalled):
		return fault.Wrap(fault.NotSupported, err, "This gateway was not installed from a package, so it has no job that restores it.")
	}
	return err
}

// Restore is the running restore of the gateway, or the last one.
type Restore struct {
	ID       string     `json:"id" doc:"Id of the restore; empty when there was none."`
	BackupID string     `json:"backup_id" doc:"Id of the backup."`
	State    string     `json:"state" enum:"none,running,done,refused,taken_back,stuck" doc:"How far it has come. refused: nothing was changed. taken_back: the data from before are there again. stuck: taking it back failed, too."`
	Summary  string     `json:"summary" doc:"The state in a sentence."`
	Reason   string     `json:"reason" doc:"Why it did not succeed, for administrators; empty when it did."`
	BeganAt  *time.Time `json:"began_at" doc:"When it was asked for."`
	EndedAt  *time.Time `json:"ended_at" doc:"When it ended."`
	Host     string     `json:"host" doc:"Name of the machine that was backed up; empty until it is known."`
	MadeAt   *time.Time `json:"made_at" doc:"When the backup was made."`
	Warnings []string   `json:"warnings" doc:"What is to be done by hand after it."`
	Steps    []Step     `json:"steps" doc:"What was done, in order. A step that was interrupted is there again when it was done again."`
}

// Step is one step of a restore.
type Step struct {
	Name    string     `json:"name" enum:"verify,load,check,swap,confirm,return,recover" doc:"What is done. swap replaces the data while the gateway's programs stand still; confirm waits until they serve; return and recover take it back."`
	State   string     `json:"state" enum:"running,done,failed,interrupted" doc:"How far it has come."`
	BeganAt time.Time  `json:"began_at" doc:"When it began."`
	EndedAt *time.Time `json:"ended_at" doc:"When it ended."`
	Output  string     `json:"output" doc:"The end of what its programs said, for administrators."`
	Error   string     `json:"error" doc:"Why it failed, for administrators."`
}

// last is the running restore or the last one, as the reader may see it.
func (r *Room) last(reader actor.Actor) (Restore, error) {
	last, err := r.Host.LastRestore()
	if errors.Is(err, fs.ErrNotExist) {
		return Restore{State: "none", Summary: "The gateway has not been restored yet.", Steps: []Step{}, Warnings: []string{}}, nil
	}
	if err != nil {
		return Restore{}, fmt.Errorf("reading the last restore: %w", err)
	}
	out := Restore{
		ID: last.ID, BackupID: last.Backup, State: string(last.State), Summary: summary(last), Reason: last.Reason, BeganAt: moment(last.BeganAt), EndedAt: moment(last.EndedAt),
		Host: last.Host, MadeAt: moment(last.MadeAt), Warnings: slices.Concat([]string{}, last.Warnings), Steps: make([]Step, len(last.Steps)),
	}
	for i, s := range last.Steps {
		out.Steps[i] = Step{Name: s.Name, State: string(s.State), BeganAt: s.BeganAt, EndedAt: moment(s.EndedAt), Output: s.Output, Error: s.Error}
	}
	if reader.Role != actor.Admin {
		out.Reason, out.Warnings = "", []string{}
		for i := range out.Steps {
			out.Steps[i].Output, out.Steps[i].Error = "", ""
		}
	}
	return out, nil
}

func summary(l host.Restore) string {
	what := "a backup"
	if !l.MadeAt.IsZero() {
		what = fmt.Sprintf("the backup of %s from %s", l.Host, l.MadeAt.Format("2006-01-02 15:04 MST"))
	}
	switch l.State {
	case host.JobRunning:
		return "The gateway is being restored from " + what + "."
	case host.JobDone:
		return "The gateway was restored from " + what + "."
	case host.JobRefused:
		return "The restore from " + what + " did not begin. Nothing was changed."
	case host.JobTakenBack:
		return "The gateway did not work with " + what + ". What was there before is there again."
	}
	return "The restore from " + what + " failed, and so did the way back. Look at the log of the restore."
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// noted is the file that says of which restore the audit log has an entry.
const noted = "restore-noted"

// note writes an entry about a restore into the data that it has brought: the one that was written when it began went with the former data.
func (r *Room) note(ctx context.Context) {
	last, err := r.Host.LastRestore()
	if err != nil || last.State == host.JobRunning {
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
