package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/outbound"
)

// target is a connected target.
type target interface {
	// put stores a file completely or not at all.
	put(ctx context.Context, name string, from *io.SectionReader) error
	// list returns the files whose names begin with the prefix.
	list(ctx context.Context, prefix string) ([]entry, error)
	// get opens a file, and returns its size.
	get(ctx context.Context, name string) (io.ReadCloser, int64, error)
	remove(ctx context.Context, name string) error
	close()
}

// entry is a file as the target lists it. Nothing about it can be trusted.
type entry struct {
	name     string
	size     int64
	modified time.Time
}

// bounds keep a target that hangs from doing harm.
type bounds struct {
	dial, stall time.Duration
	// ask is for small operations such as a test; look is for the list of archives, for which a page waits.
	ask, look time.Duration
	// slowest is the minimum transfer rate in bytes per second.
	slowest int64
	// again lists the pauses between attempts of an upload.
	again []time.Duration
}

var usual = bounds{dial: 10 * time.Second, stall: 30 * time.Second, ask: 45 * time.Second, look: 9 * time.Second, slowest: 32 << 10, again: []time.Duration{2 * time.Second, 10 * time.Second}}

// within returns how long a transfer of this size may take.
func (b bounds) within(size int64) time.Duration {
	return b.ask + time.Duration(size/b.slowest)*time.Second
}

const (
	// maxAnswer limits what a target may send besides the archives themselves.
	maxAnswer = 16 << 20
	// maxEntries limits the number of our files at a target.
	maxEntries = 10_000
)

// failure explains an error to the operator. It quotes nothing from the target.
type failure struct {
	sentence string
	// lasting means that a retry is useless.
	lasting bool
}

func (f *failure) Error() string { return f.sentence }

func failed(lasting bool, format string, args ...any) *failure {
	return &failure{fmt.Sprintf(format, args...), lasting}
}

// explain turns an error into a sentence.
func explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return failed(false, "%s", f.Message)
	}
	if refused, ok := errors.AsType[*outbound.Refused](err); ok {
		return failed(true, "%s; allow internal addresses for this target if it is meant", refused)
	}
	if f := explainS3(err); f != nil {
		return f
	}
	if f := explainSFTP(err); f != nil {
		return f
	}
	if why := outbound.Explain(err); why != "" {
		return failed(false, "%s", why)
	}
	return failed(false, "it does not answer like a server of this kind")
}

// keys holds the decrypted secrets of a target.
type keys struct{ secretKey, password, privateKey string }

// open decrypts the secrets of a row.
func (r *Room) open(v *Remote) (keys, error) {
	var k keys
	for name, to := range map[string]*string{"secret_key": &k.secretKey, "password": &k.password, "private_key": &k.privateKey} {
		var err error
		if *to, err = v.Settings.secrets()[name].Open(r.Secrets, table, "settings", v.ID.String()); err != nil {
			// Usually after a restore on a machine with another master key.
			return k, failed(true, "its %s must be entered again: this gateway cannot read the stored one", strings.ReplaceAll(name, "_", " "))
		}
	}
	return k, nil
}

// connect connects to a target, and stores the key of a server on first use.
func (r *Room) connect(ctx context.Context, v *Remote, answer int64) (target, error) {
	secrets, err := r.open(v)
	if err != nil {
		return nil, err
	}
	t, fingerprint, err := connect(ctx, r.Outbound, v.Kind, v.Settings, secrets, outbound.Limits{
		Internal: v.AllowInternal, Dial: r.bounds.dial, Stall: r.bounds.stall, Answer: answer,
	})
	if err != nil {
		return nil, err
	}
	if fingerprint != v.Settings.HostKeyFingerprint {
		if err := r.trust(ctx, v, fingerprint); err != nil {
			t.close()
			return nil, err
		}
	}
	return t, nil
}

func connect(ctx context.Context, door *outbound.Door, kind string, s Settings, k keys, l outbound.Limits) (t target, fingerprint string, err error) {
	if kind == kindS3 {
		t, err = connectS3(door, s.S3, k, l)
		return t, "", err
	}
	return connectSFTP(ctx, door, s.SFTP, k, l)
}

// trust stores the key of a server, unless another connection was first.
func (r *Room) trust(ctx context.Context, v *Remote, fingerprint string) error {
	if actor.From(ctx).Name == "" {
		ctx = actor.With(ctx, actor.System("gateway-api"))
	}
	_, _, err := r.remotes.Amend(ctx, r.Resources, v.ID, func(now *Remote) error {
		if now.Settings.destination(now.Kind) != v.Settings.destination(v.Kind) {
			return failed(false, "the target was changed in the meantime")
		}
		if now.Settings.HostKeyFingerprint != "" && now.Settings.HostKeyFingerprint != fingerprint {
			return errOtherKey(fingerprint)
		}
		now.Settings.HostKeyFingerprint = fingerprint
		return nil
	})
	if err == nil {
		v.Settings.HostKeyFingerprint = fingerprint
	}
	return err
}

// The names of archives begin with the host name and the start of the machine id, so that several gateways can share a target without
// deleting each other's files.
var fileForm = regexp.MustCompile(`^gateway_([A-Za-z0-9.-]{1,64})_([0-9a-f]{12})_([A-Za-z0-9][A-Za-z0-9._+-]{0,127})$`)

const anyGateway = "gateway_"

var notInHost = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// own returns the prefix of this gateway's archives.
func (r *Room) own() string {
	f := r.Host.Facts()
	host := notInHost.ReplaceAllString(f.Hostname, "-")
	return fmt.Sprintf("gateway_%s_%.12s_", host[:min(len(host), 64)], f.MachineID+"000000000000")
}
