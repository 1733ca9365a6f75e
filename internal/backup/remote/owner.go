package remote

import (
	"context"
	"errors"
	"io"
	"net/http"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/throttle"
)

// Source is the place from which a new machine gets its backup. It is never stored.
type Source struct {
	Kind          string   `json:"kind" required:"true" enum:"s3,sftp" doc:"What it is: a bucket of an object store, or a folder of an SSH server."`
	Settings      Settings `json:"settings" required:"true" doc:"Connection settings, as for an off-site target. An SFTP server must be named by its fingerprint."`
	AllowInternal bool     `json:"allow_internal" doc:"Allow a source on this machine or at a link-local address. Refused otherwise."`
	File          string   `json:"file" maxLength:"255" doc:"Name of the archive, as in the list; not used for the list itself."`
}

func (s *Source) Validate() error {
	var c check.List
	s.Settings.complain(&c, s.Kind)
	return c.Err()
}

// Offer lists what a source has.
type Offer struct {
	Listing
	HostKey string `json:"host_key" doc:"Fingerprint of the key that the SFTP server presented, if the request had none. Nothing was sent to the server. Verify the fingerprint, then send it as host_key_fingerprint."`
}

// mountOwner adds the routes that fetch a backup for a machine that is not set up yet.
func (r *Room) mountOwner() {
	httpd.Handle(r.Router, http.MethodPost, "/setup/restore/archives", httpd.Owner.Here(),
		httpd.Doc{ID: "setup.restore.archives", Tag: "setup", Summary: "List the archives from which a machine that is not set up yet can be restored"},
		func(c *httpd.Call, in struct{ Body httpd.Onto[Source] }) (Offer, error) {
			var list []Archive
			err := r.try(c, in.Body, func(ctx context.Context, p *Place, _ string) (err error) {
				ctx, cancel := context.WithTimeout(ctx, r.bounds.look)
				defer cancel()
				list, err = p.List(ctx)
				return err
			})
			if key, ok := errors.AsType[*UnknownKey](err); ok {
				return Offer{Listing: Listing{Archives: []Archive{}}, HostKey: key.Fingerprint}, nil
			}
			if f, ok := errors.AsType[*failure](err); ok {
				return Offer{Listing: Listing{Archives: []Archive{}, Error: f.sentence}}, nil
			}
			return Offer{Listing: Listing{Archives: list}}, err
		})
	httpd.Handle(r.Router, http.MethodPost, "/setup/restore/fetch", httpd.Owner.Here(),
		httpd.Doc{ID: "setup.restore.fetch", Tag: "setup", Summary: "Copy an archive to a machine that is not set up yet, to restore it there. It replaces an earlier one", Audit: "setup.restore.fetch", Creates: backup.Path},
		func(c *httpd.Call, in struct{ Body httpd.Onto[Source] }) (b backup.Backup, err error) {
			err = r.try(c, in.Body, func(ctx context.Context, p *Place, file string) error {
				if !fileForm.MatchString(file) {
					return fault.Field("file", "must be the file name of an archive, as the list of archives says")
				}
				return r.Audit.Do(c, "setup.restore.fetch", p.settings.url(p.kind), func() (any, error) {
					b, err = pass(ctx, func(ctx context.Context, to io.Writer) error {
						_, err := p.Fetch(ctx, file, to)
						return err
					}, r.deps.Replace)
					return map[string]any{"file": file, "backup": b.ID}, err
				})
			})
			if key, ok := errors.AsType[*UnknownKey](err); ok {
				return b, fault.Field("settings.host_key_fingerprint", "is required: the server shows %s", key.Fingerprint)
			}
			return b, err
		})
}

// try runs an operation at a source. Only one runs at a time, and after repeated failures the caller must wait.
func (r *Room) try(c *httpd.Call, body httpd.Onto[Source], do func(ctx context.Context, p *Place, file string) error) error {
	s, err := body.Decode(Source{Settings: defaults()})
	if err != nil {
		return err
	}
	if !r.turn.TryLock() {
		return fault.New(fault.Conflict, "Another request is looking for archives. Wait until it is finished.")
	}
	defer r.turn.Unlock()
	attempt, err := r.tries.Begin("", throttle.Address(c.Client()))
	if err != nil {
		return err
	}
	// It may take longer than the caller waits.
	if err := do(context.WithoutCancel(c), r.place(s), s.File); err != nil {
		return err
	}
	attempt.Succeeded()
	return nil
}

func (r *Room) place(s Source) *Place {
	p := &Place{door: r.Outbound, kind: s.Kind, settings: s.Settings, limits: outbound.Limits{Internal: s.AllowInternal, Dial: r.bounds.dial, Stall: r.bounds.stall}}
	p.keys.secretKey, _ = s.Settings.SecretKey.Fresh()
	p.keys.password, _ = s.Settings.Password.Fresh()
	p.keys.privateKey, _ = s.Settings.PrivateKey.Fresh()
	return p
}
