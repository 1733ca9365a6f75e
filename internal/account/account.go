// Package account manages the users, their logins and their sessions.
package account

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

// Deps holds what the room needs besides the kit.
type Deps struct {
	Passwords *password.Hasher
	// StoreAdmin returns the admin created by the setup.
	StoreAdmin func() StoreAdmin
	// UpdateStoreAdmin changes that admin, unless change fails. When it returns, the change is on disk.
	UpdateStoreAdmin func(change func(*StoreAdmin) error) error
	// FQDN returns the name of the gateway; empty before the setup.
	FQDN func() string
	// Names reports whether a host name belongs to another node of the cluster. It may be nil.
	Names func(ctx context.Context, host string) bool
	// Primary is the cluster's primary; nil without a cluster.
	Primary Primary
}

// Room manages accounts, logins and sessions.
type Room struct {
	*kit.Kit
	deps      Deps
	started   time.Time
	users     resource.Kind[User]
	signer    *signer
	actors    *actors
	devices   *devices
	offline   *offline
	guesses   *throttle.Throttle // of passwords and second steps
	codes     *throttle.Throttle // of the codes of each account, wherever they come from
	resets    *throttle.Throttle // of reset tokens
	signOns   *throttle.Throttle // by single sign-on
	settled   atomic.Bool        // the database and the setup store agree
	settling  sync.Mutex
	oidc      resource.Singleton[OIDCSettings]
	flows     *flows
	providers *providers
}

// New builds the room, and creates the secret that signs sessions if there is none.
func New(k *kit.Kit, d Deps) (*Room, error) {
	key, err := secret.File(k.Paths.State("jwt-secret"), signingBytes)
	if err != nil {
		return nil, fmt.Errorf("session secret: %w", err)
	}
	r := &Room{
		Kit: k, deps: d, started: k.Clock.Now(), signer: newSigner(key, k.Clock), actors: db.NewCache[trace, *found](k.DB, actorsTopic), devices: newDevices(key, k.Clock), offline: newOffline(),
		guesses: throttle.New(k.Clock, throttle.Guessing), resets: throttle.New(k.Clock, throttle.Guessing), codes: throttle.New(k.Clock, codeGuessing), signOns: throttle.New(k.Clock, signOnLimits),
		flows: newFlows(key, k.Clock), providers: newProviders(k),
	}
	r.users = r.newUsers()
	r.oidc = r.newOIDCSettings()
	return r, nil
}

// declare says where the rows of tables without a kind belong. Each node issues its own sessions, which end there.
func (r *Room) declare() {
	r.Resources.Declare("account_totp", resource.Shared)
	r.Resources.Declare("account_recovery_codes", resource.Shared)
	r.Resources.Declare("account_passkeys", resource.Shared, "last_used_at")
	r.Resources.Declare("account_api_tokens", resource.Shared, "last_used_at")
	for _, table := range []string{"account_sessions", "account_challenges", "account_passkey_registrations", "account_oidc_states", "account_spent"} {
		r.Resources.Declare(table, resource.Local)
	}
}

func (r *Room) Mount() {
	r.declare()
	r.users.Mount(r.Resources)
	r.mountUserPassword()
	r.mountLogin()
	r.mountChangePassword()
	r.mountResetPassword()
	r.mountTOTP()
	r.mountPasskeys()
	r.mountSecondStep()
	r.mountSessions()
	r.mountAPITokens()
	r.Audit.AdminOnly("api-token") // those of others are for admins
	r.oidc.Mount(r.Resources)
	r.mountOIDCLink()
	r.mountOIDCTest()
	r.mountOIDC()
}
