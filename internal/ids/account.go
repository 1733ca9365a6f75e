package ids

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Names of the gateway's own accounts: for reporting, for reading decisions, and for the bouncer.
const (
	ownAccount      = "gateway"
	firewallAccount = "gateway-firewall"
)

func isOwn(name string) bool { return name == ownAccount || name == firewallAccount }

// Key is a bouncer's API key in plain text, on its way into a file.
type Key struct{ value.Text[key] }

type key struct{}

var keys = regexp.MustCompile(`^[0-9a-zA-Z-]{1,128}$`)

func (key) Example() string { return "78b8ef91340e761d1fca3a10508cd5d9" }

func (key) Parse(s string) (string, error) {
	if !keys.MatchString(s) {
		return "", errors.New("is not a CrowdSec key")
	}
	return s, nil
}

// known holds the secrets of the gateway's own accounts, which CrowdSec has generated. They belong to this machine, like CrowdSec's
// database.
type known struct {
	Password string `json:"password"`
	Read     Key    `json:"read"`
	Firewall Key    `json:"firewall"`
}

// accounts stores them in a file.
type accounts struct {
	path string
	// making is held while an account is created.
	making sync.Mutex
}

func (a *accounts) read() (k known, err error) {
	content, err := os.ReadFile(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("the gateway's accounts at CrowdSec: %w", err)
	}
	if err := json.Unmarshal(content, &k); err != nil {
		return known{}, nil // new ones are created
	}
	return k, nil
}

func (a *accounts) save(k known) error {
	content, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return secret.Save(a.path, content)
}

// register creates the missing accounts. CrowdSec need not be running.
func (r *Room) register(ctx context.Context) error {
	r.accounts.making.Lock()
	defer r.accounts.making.Unlock()
	k, err := r.accounts.read()
	if err != nil {
		return err
	}
	if k.Password == "" {
		if k.Password, err = r.makeMachine(ctx); err != nil {
			return err
		}
		if err := r.accounts.save(k); err != nil {
			return err
		}
	}
	for name, key := range map[string]*Key{ownAccount: &k.Read, firewallAccount: &k.Firewall} {
		if !key.IsZero() {
			continue
		}
		// An existing bouncer has a key that is lost.
		if _, err := r.Host.Run(ctx, crowdsec.BouncerRemove, host.Input{Args: []string{name}}); err != nil && !refused(err) {
			return err
		}
		if *key, err = r.makeBouncer(ctx, name); err != nil {
			return err
		}
		if err := r.accounts.save(k); err != nil {
			return err
		}
		r.Engine.Converge() // the bouncer has a key now
	}
	return nil
}

// refused reports whether a command ran and failed.
func refused(err error) bool {
	_, ok := errors.AsType[*host.ExitError](err)
	return ok
}

// makeMachine creates the account of a machine, or gives it a new password. CrowdSec's tool generates the password: one that we passed
// would be visible to every user of the machine among its arguments.
func (r *Room) makeMachine(ctx context.Context) (password string, err error) {
	out, err := r.Host.Run(ctx, crowdsec.MachineAdd, host.Input{Args: []string{ownAccount}})
	if err != nil {
		return "", toolError(err)
	}
	for line := range strings.Lines(out.Stdout) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "password: "); ok {
			return strings.TrimSpace(rest), nil
		}
	}
	return "", errors.New("cscli created an account but did not print its password")
}

func (r *Room) makeBouncer(ctx context.Context, name string) (Key, error) {
	out, err := r.Host.Run(ctx, crowdsec.BouncerAdd, host.Input{Args: []string{name}})
	if err != nil {
		return Key{}, toolError(err)
	}
	var text string
	if err := json.Unmarshal([]byte(out.Stdout), &text); err != nil {
		return Key{}, errors.New("cscli created a bouncer but did not print its key")
	}
	return value.Parse[Key](text)
}

// toolError extracts the message from the output of CrowdSec's tool.
func toolError(err error) error {
	exit, ok := errors.AsType[*host.ExitError](err)
	if !ok {
		return err
	}
	for line := range strings.Lines(exit.Output.Stderr) {
		var answer struct {
			Message string `json:"msg"`
		}
		if json.Unmarshal([]byte(line), &answer) == nil && answer.Message != "" {
			return errors.New("cscli: " + host.FirstLines(answer.Message))
		}
	}
	return err
}

// ensure makes sure that the running CrowdSec knows the gateway's accounts.
func (r *Room) ensure(ctx context.Context) error {
	k, err := r.accounts.read()
	if err != nil {
		return err
	}
	lost := false
	for _, key := range []*Key{&k.Read, &k.Firewall} {
		if key.IsZero() {
			continue
		}
		_, err := r.Host.DetectionAsk(ctx, crowdsec.Question{Verb: crowdsec.Decisions, Key: key.String(), Query: harmless})
		if unknown(err) {
			*key, lost = Key{}, true
		} else if err != nil {
			return err
		}
	}
	if lost {
		if err := r.accounts.save(k); err != nil {
			return err
		}
	}
	return r.register(ctx)
}

// harmless asks for decisions about an address that has none.
var harmless = url.Values{"ip": {"127.0.0.1"}}

// unknown reports whether CrowdSec does not know the caller.
func unknown(err error) bool {
	refused, ok := errors.AsType[*crowdsec.Refused](err)
	return ok && refused.Unknown()
}

// asRead asks with the key that reads decisions.
func (r *Room) asRead(ctx context.Context, q crowdsec.Question, into any) error {
	k, err := r.accounts.read()
	if err != nil {
		return err
	}
	q.Key = k.Read.String()
	return r.ask(ctx, q, into)
}

// asMachine asks as the gateway's machine. It logs in if needed, and sets a new password if CrowdSec does not accept the present one.
func (r *Room) asMachine(ctx context.Context, q crowdsec.Question, into any) error {
	r.mu.Lock()
	q.Token = r.token
	r.mu.Unlock()
	if q.Token != "" {
		if err := r.ask(ctx, q, into); !unknown(err) {
			return err
		}
	}
	token, err := r.login(ctx)
	if unknown(err) {
		if err = r.forgetPassword(ctx); err == nil {
			token, err = r.login(ctx)
		}
	}
	if err != nil {
		return err
	}
	q.Token = token
	return r.ask(ctx, q, into)
}

func (r *Room) login(ctx context.Context) (token string, err error) {
	k, err := r.accounts.read()
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{"machine_id": ownAccount, "password": k.Password, "scenarios": []string{}})
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"token"`
	}
	if err := r.ask(ctx, crowdsec.Question{Verb: crowdsec.Login, Body: body}, &answer); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = answer.Token
	return answer.Token, nil
}

// forgetPassword sets a new password.
func (r *Room) forgetPassword(ctx context.Context) error {
	k, err := r.accounts.read()
	if err != nil {
		return err
	}
	k.Password = ""
	if err := r.accounts.save(k); err != nil {
		return err
	}
	return r.register(ctx)
}

func (r *Room) ask(ctx context.Context, q crowdsec.Question, into any) error {
	answer, err := r.Host.DetectionAsk(ctx, q)
	if err != nil || into == nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("reading CrowdSec's answer to %s: %w", q.Verb, err)
	}
	return nil
}
