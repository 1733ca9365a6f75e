package radius

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Config is everything that FreeRADIUS's files depend on. Its secrets are in plain text.
type Config struct {
	Settings Settings       `json:"settings"`
	Clients  []ConfigClient `json:"clients"`
	Users    []ConfigUser   `json:"users"`
	// Own is the gateway's own shared secret.
	Own SharedSecret `json:"own"`
	// Problems are sentences about what is left out.
	Problems []string `json:"problems"`
}

// ConfigClient is a client with its secret in plain text.
type ConfigClient struct {
	ID      uuid.UUID    `json:"id"`
	Name    Name         `json:"name"`
	Address value.Prefix `json:"address"`
	Secret  SharedSecret `json:"secret"`
	// RequireMessageAuthenticator drops the client's unsigned requests.
	RequireMessageAuthenticator bool `json:"require_message_authenticator"`
}

// ConfigUser is a user with the password in plain text.
type ConfigUser struct {
	Name            Name             `json:"name"`
	Password        Password         `json:"password"`
	Active          bool             `json:"active"`
	ReplyAttributes *ReplyAttributes `json:"reply_attributes"`
}

func (r *Room) load(ctx context.Context, q db.Querier) (Config, error) {
	s, err := r.settings.Load(ctx, q)
	if err != nil {
		return Config{}, err
	}
	clients, err := r.clients.All(ctx, q)
	if err != nil {
		return Config{}, err
	}
	users, err := r.users.All(ctx, q)
	if err != nil {
		return Config{}, err
	}
	own, err := r.own()
	if err != nil {
		return Config{}, err
	}
	c := Config{Settings: *s, Own: own}
	for i := range clients {
		row := &clients[i]
		shared, err := open[SharedSecret](r, row.Secret, r.clients.Table, "secret", row.ID)
		if err != nil {
			c.Problems = append(c.Problems, fmt.Sprintf("the client %s is left out: its secret %v", row.Label(), err))
			continue
		}
		c.Clients = append(c.Clients, ConfigClient{ID: row.ID, Name: row.Name, Address: row.Address, Secret: shared, RequireMessageAuthenticator: row.RequireMessageAuthenticator})
	}
	for i := range users {
		row := &users[i]
		word, err := open[Password](r, row.Password, r.users.Table, "password", row.ID)
		if err != nil {
			c.Problems = append(c.Problems, fmt.Sprintf("the user %s is left out: its password %v", row.Label(), err))
			continue
		}
		c.Users = append(c.Users, ConfigUser{Name: row.Name, Password: word, Active: row.Active, ReplyAttributes: row.ReplyAttributes})
	}
	return c, nil
}

// open decrypts a secret of a row. The error is the end of a sentence about it.
func open[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](r *Room, sealed secret.Text, table, column string, id uuid.UUID) (T, error) {
	text, err := sealed.Open(r.Secrets, table, column, id.String())
	switch {
	case errors.Is(err, secret.ErrOtherKey):
		return *new(T), errors.New("was stored with another master key: enter it again")
	case err != nil:
		return *new(T), fmt.Errorf("cannot be opened: %w", err)
	}
	opened, err := value.Parse[T, P](text)
	if err != nil {
		return opened, errors.New("cannot be written: enter another one")
	}
	return opened, nil
}

// own returns the gateway's own shared secret, which is generated once.
func (r *Room) own() (SharedSecret, error) {
	b, err := secret.File(r.Paths.State("radius.secret"), 16)
	if err != nil {
		return SharedSecret{}, fmt.Errorf("the gateway's own RADIUS secret: %w", err)
	}
	return value.Parse[SharedSecret](hex.EncodeToString(b))
}
