package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// State holds the decisions of the setup, and what must be known while the database is unavailable.
type State struct {
	Completed        bool             `json:"completed"`
	Admin            Admin            `json:",embed"`
	FQDN             value.DomainName `json:"fqdn"`
	ACMEEmail        value.Email      `json:"acme_email"`
	ACMEDirectoryURL value.URL        `json:"acme_directory_url"`
	ACMEEnabled      bool             `json:"acme_enabled"`
	IsClusterNode    bool             `json:"is_cluster_node"`
	HasLeft          bool             `json:"has_left,omitzero"` // it has left a cluster, and may join another one
	PrimaryFQDN      value.DomainName `json:"primary_fqdn"`
	IPv6Enabled      bool             `json:"ipv6_enabled"`
	IPv6Kept         bool             `json:"ipv6_kept,omitzero"` // copied to the database, which decides about it from then on
	Maintenance      bool             `json:"maintenance"`
	AutoUpdate       bool             `json:"auto_update"`
	Retention        Retention        `json:"retention"`
}

// Admin is the administrator whom the setup created. While the database has no user with that address, or is unavailable, this
// data authenticates the administrator. The accounts decide when it does.
type Admin struct {
	Email value.Email `json:"admin_email"`
	// Hash is empty if the administrator cannot log in by the store.
	Hash password.Hash `json:"admin_password_hash"`
	// UserID is the database user that the administrator has become.
	UserID uuid.UUID `json:"admin_user_id,omitzero"`
	// TOTP is the sealed secret of the authenticator app, and TOTPStep the newest code that was used.
	TOTP     []byte `json:"admin_totp,omitempty"`
	TOTPStep int64  `json:"admin_totp_step,omitzero"`
	// RecoveryCodes are the hashes of the unused codes.
	RecoveryCodes [][]byte `json:"admin_recovery_codes,omitempty"`
	Passkeys      int      `json:"admin_passkeys,omitzero"`
	// SpentCodes and the Reset fields record what happened while the database was unavailable, until it has been updated.
	SpentCodes [][]byte  `json:"admin_spent_codes,omitempty"`
	ResetAt    time.Time `json:"admin_reset_at,omitzero"`
	ResetFrom  string    `json:"admin_reset_from,omitzero"`
	ResetKeeps bool      `json:"admin_reset_keeps,omitzero"`
}

// Retention says how long things are kept.
type Retention struct {
	// AuditDays is how many days audit entries are kept; 0 keeps them forever.
	AuditDays int `json:"audit_days"`
	// BackupKeep is how many successful backups are kept.
	BackupKeep int `json:"backup_keep"`
	// HistoryDays is how many days change sets are kept, and HistorySets how many of them.
	HistoryDays int `json:"history_days"`
	HistorySets int `json:"history_sets"`
}

func fresh() State {
	return State{Retention: Retention{AuditDays: 90, BackupKeep: 14, HistoryDays: 365, HistorySets: 10000}}
}

// Store keeps the state in a file, which several programs have open: each sees the changes of the others, and none is lost.
type Store struct {
	path  string
	mu    sync.Mutex
	state State
	file  fs.FileInfo // the file that state was read from; nil if there is none yet
}

// OpenStore reads the store. A missing file is the state of a fresh machine.
func OpenStore(paths kit.Paths) (*Store, error) {
	s := &Store{path: paths.State("setup.json"), state: fresh()}
	if err := s.refresh(); err != nil {
		return nil, err
	}
	return s, nil
}

// View returns the current state, or the last known one if the file cannot be read: a file that went missing must not open the
// setup to the next caller.
func (s *Store) View() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.refresh()
	return s.state
}

// Update changes the state, unless change refuses. It sees the changes of other programs, which wait for it.
func (s *Store) Update(change func(*State) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	// The store itself cannot be locked, because each write replaces it.
	lock, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking the setup store: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("locking the setup store: %w", err)
	}
	if err := s.refresh(); err != nil {
		return err
	}
	next := s.state
	if err := change(&next); err != nil {
		return err
	}
	b, err := json.Marshal(next, jsontext.Multiline(true))
	if err != nil {
		return fmt.Errorf("encoding the setup store: %w", err)
	}
	if err := secret.Save(s.path, append(b, '\n')); err != nil {
		return fmt.Errorf("writing the setup store: %w", err)
	}
	return s.refresh()
}

func (s *Store) refresh() error {
	file, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the setup store: %w", err)
	}
	if s.file != nil && os.SameFile(file, s.file) && file.ModTime().Equal(s.file.ModTime()) && file.Size() == s.file.Size() {
		return nil
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return fmt.Errorf("reading the setup store: %w", err)
	}
	state := fresh()
	if err := json.Unmarshal(b, &state); err != nil {
		return fmt.Errorf("the setup store %s is damaged: %w", s.path, err)
	}
	s.state, s.file = state, file
	return nil
}
