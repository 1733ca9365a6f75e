// Package account owns the users, how they log in, and their sessions.
package account

import (
	"fmt"
	"sync"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/password"
	"edge.internal/gateway/internal/kit/resource"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
	"edge.internal/gateway/internal/kit/value"
)

// Deps is what the room needs besides the kit.
type Deps struct {
	Passwords *password.Hasher
	// StoreAdmin is the admin whom the setup made; both are empty when there is none.
	StoreAdmin func() (email value.Email, hash password.Hash)
	// ReplaceStoreAdmin gives that admin another address and hash, if the admin still has the address was.
	ReplaceStoreAdmin func(was, email value.Email, hash password.Hash) error
	// FQDN is the name of the gateway; empty before the setup.
	FQDN func() string
}

// Room is the accounts.
type Room struct {
	*kit.Kit
	deps      Deps
	users     resource.Kind[User]
	signer    *signer
	offline   offlineSessions
	guesses   *throttle.Throttle // of passwords and second steps
	codes     *throttle.Throttle // of the codes of each account, wherever they come from
	resets    *throttle.Throttle // of reset tokens
	signOns   *throttle.Throttle // by single sign-on
	mirroring sync.Mutex
	oidc      resource.Singleton[OIDCSettings]
	flows     *flows
	providers *providers
}

// New builds the room. It makes the secret that signs sessions when there is none.
func New(k *kit.Kit, d Deps) (*Room, error) {
	key, err := secret.File(k.Paths.State("jwt-secret"), signingBytes)
	if err != nil {
		return nil, fmt.Errorf("session secret: %w", err)
	}
	r := &Room{
		Kit: k, deps: d, signer: newSigner(key, k.Clock),
		guesses: throttle.New(k.Clock, throttle.Guessing), resets: throttle.New(k.Clock, throttle.Guessing), codes: throttle.New(k.Clock, codeGuessing), signOns: throttle.New(k.Clock, signOnLimits),
		flows: newFlows(key, k.Clock), providers: newProviders(k),
	}
	r.users = r.newUsers()
	r.oidc = r.newOIDCSettings()
	return r, nil
}

// Mount adds the room's routes.
func (r *Room) Mount() {
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
