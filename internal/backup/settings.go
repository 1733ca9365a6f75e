package backup

import (
	"context"
	"errors"
	"unicode/utf8"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
)

// Settings say how backups are made.
type Settings struct {
	resource.Meta
	resource.Secrets
	Passphrase           secret.Text `json:"passphrase,omitzero" doc:"Encrypts every backup from now on: at least 12 characters. An encrypted backup contains the master key, so it can be restored on another machine with all secrets. Send an empty text to remove it."`
	PassphraseConfigured bool        `json:"passphrase_configured" readOnly:"true" db:"-" doc:"Whether backups are encrypted."`
	Prove                bool        `json:"prove" doc:"Prove after every scheduled backup that it can be restored."`
}

func (s *Settings) Label() string { return "backups" }

// minPassphrase is the minimum length of a passphrase: it protects the master key wherever the archive goes.
const minPassphrase = 12

func (s *Settings) Validate() error { return checkPassphrase(s.Passphrase) }

func checkPassphrase(given secret.Text) error {
	if text, fresh := given.Fresh(); fresh && utf8.RuneCountInString(text) < minPassphrase {
		return fault.Field("passphrase", "must have at least %d characters", minPassphrase)
	}
	return nil
}

const settingsTable = "backup_settings"

func (r *Room) newSettings() resource.Singleton[Settings] {
	return resource.Singleton[Settings]{
		Name: "backup.settings", Title: "backup settings", Path: "/backup-settings", Table: settingsTable, Local: true,
	}
}

// configured returns the settings and the decrypted passphrase for new backups.
func (r *Room) configured(ctx context.Context, q db.Querier) (s Settings, passphrase string, err error) {
	row, err := r.settings.Load(ctx, q)
	if err != nil {
		return s, "", err
	}
	passphrase, err = row.Passphrase.Open(r.Secrets, settingsTable, "passphrase", row.ID.String())
	if errors.Is(err, secret.ErrOtherKey) {
		return *row, "", fault.New(fault.Conflict, "The passphrase for backups was stored with another master key. Enter it again in the backup settings.")
	}
	return *row, passphrase, err
}
