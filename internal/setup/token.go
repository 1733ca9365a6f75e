package setup

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"

	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/throttle"
)

const tokenBytes = 16

func tokenPath(paths kit.Paths) string { return paths.State("setup-token") }

// Token returns the one-time token that proves ownership of the machine, for gateway-ctl.
func Token(paths kit.Paths) (string, error) {
	token, err := readToken(paths)
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("there is no setup token: the setup is complete, or the service has not started yet")
	}
	return token, err
}

func readToken(paths kit.Paths) (string, error) {
	b, err := os.ReadFile(tokenPath(paths))
	if err != nil {
		return "", fmt.Errorf("reading the setup token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 2*tokenBytes {
		return "", errors.New("the setup token is damaged: remove it and start the service again")
	}
	return token, nil
}

func ensureToken(paths kit.Paths) (string, error) {
	token, err := readToken(paths)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	var b [tokenBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	token = hex.EncodeToString(b[:])
	if err := secret.Save(tokenPath(paths), []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("writing the setup token: %w", err)
	}
	return token, nil
}

func removeToken(paths kit.Paths) error {
	if err := os.Remove(tokenPath(paths)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the setup token: %w", err)
	}
	return nil
}

// needsToken reports whether a caller must prove ownership of the machine. A caller on the machine itself has done so.
func needsToken(from netip.Addr) bool { return !from.IsLoopback() }

// Owner authenticates the owner of a machine that is not set up yet.
func (r *Room) Owner(from netip.Addr, token string) (actor.Actor, error) {
	if r.Completed() {
		return actor.Actor{}, errCompleted
	}
	if err := r.prove(from, token); err != nil {
		return actor.Actor{}, r.late(err)
	}
	return actor.System("setup"), nil
}

// late returns the error for a refused token. If the token is gone because someone else has just used it, the setup is complete.
func (r *Room) late(refusal error) error {
	if r.Completed() {
		return errCompleted
	}
	return refusal
}

// prove refuses remote callers who do not know the token.
func (r *Room) prove(from netip.Addr, given string) error {
	if !needsToken(from) {
		return nil
	}
	attempt, err := r.guesses.Begin("", throttle.Address(from))
	if err != nil {
		return err
	}
	token, err := readToken(r.Paths)
	switch {
	case err == nil && subtle.ConstantTimeCompare([]byte(token), []byte(given)) == 1:
		attempt.Succeeded()
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		attempt.Withdraw()
		return err
	}
	f := fault.New(fault.Forbidden, "The setup token is missing or wrong.")
	f.Fields = map[string]string{"setup_token": "must be the setup token. Run gateway-ctl setup-token to print it"}
	return f
}
