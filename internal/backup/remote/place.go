package remote

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/outbound"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Place is a target that is never stored: a new machine gets a backup from it before it is a gateway.
type Place struct {
	door     *outbound.Door
	kind     string
	settings Settings
	keys     keys
	limits   outbound.Limits
}

// Login holds the credentials for a place.
type Login struct {
	// AccessKey and Region are for S3; CA is the certificate of its authority, and Plain switches TLS off.
	AccessKey, Region, CA string
	Plain                 bool
	// Secret is the secret key of S3, or the password of SFTP.
	Secret string
	// PrivateKey is for SFTP, and HostKey is the fingerprint of the server's key.
	PrivateKey, HostKey string
}

// At returns the place at an address as targets display it: s3://endpoint/bucket/folder or sftp://user@host:port/folder. Only root uses
// it, who may reach any address.
func At(address string, l Login) (*Place, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != kindS3 && u.Scheme != kindSFTP || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.New(fault.Invalid, "%q is not an off-site target. Use s3://endpoint/bucket/folder or sftp://user@host:port/folder.", address)
	}
	p := &Place{door: outbound.New(nil), kind: u.Scheme, settings: defaults(), limits: outbound.Limits{Internal: true, Dial: usual.dial, Stall: usual.stall}}
	s := &p.settings
	if p.kind == kindS3 {
		s.Bucket, s.PathPrefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/")
		s.Endpoint, s.AccessKey, s.SecretKey, s.CACertificate, s.HTTPS = u.Host, l.AccessKey, secret.NewMasked(l.Secret), l.CA, !l.Plain
		if l.Region != "" {
			s.Region = l.Region
		}
		p.keys = keys{secretKey: l.Secret}
	} else {
		if s.Host, err = value.Parse[value.Host](u.Hostname()); err != nil {
			return nil, fault.New(fault.Invalid, "%q must contain a host name or an address.", address)
		}
		if u.Port() != "" {
			s.Port, _ = strconv.Atoi(u.Port())
		}
		s.Username, s.Password, s.PrivateKey, s.HostKeyFingerprint = u.User.Username(), secret.NewMasked(l.Secret), secret.NewMasked(l.PrivateKey), l.HostKey
		if s.RemoteDir = path.Clean(u.Path); strings.HasPrefix(s.RemoteDir, "/~") {
			s.RemoteDir = strings.Trim(strings.TrimPrefix(s.RemoteDir, "/~"), "/")
		} else if s.RemoteDir == "/" || s.RemoteDir == "." {
			s.RemoteDir = ""
		}
		p.keys = keys{password: l.Secret, privateKey: l.PrivateKey}
	}
	var c check.List
	s.complain(&c, p.kind)
	return p, inOneLine(c.Err())
}

// inOneLine joins errors about fields into one line for the command line.
func inOneLine(err error) error {
	if err == nil {
		return nil
	}
	var all []string
	fields := fault.From(err).Fields
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, strings.ReplaceAll(strings.TrimPrefix(name, "settings."), "_", " ")+" "+fields[name])
	}
	return fault.New(fault.Invalid, "%s", strings.Join(all, "; "))
}

// UnknownKey refuses a server whose key is not known yet.
type UnknownKey struct{ Fingerprint string }

func (k *UnknownKey) Error() string {
	return fmt.Sprintf("the server presents the key %s. If it is the right one, confirm it with --host-key; nothing was sent to the server", k.Fingerprint)
}

func (p *Place) connect(ctx context.Context) (target, error) {
	if p.kind == kindSFTP && p.settings.HostKeyFingerprint == "" {
		// What comes from there becomes this machine's configuration, so the server must be authenticated first.
		fingerprint, err := hostKey(ctx, p.door, p.settings.SFTP, p.limits)
		if err != nil {
			return nil, explain(err)
		}
		return nil, &UnknownKey{fingerprint}
	}
	t, _, err := connect(ctx, p.door, p.kind, p.settings, p.keys, p.limits)
	if err != nil {
		return nil, explain(err)
	}
	return t, nil
}

// List returns the archives there, newest first.
func (p *Place) List(ctx context.Context) ([]Archive, error) {
	ctx, cancel := context.WithTimeout(ctx, usual.ask)
	defer cancel()
	t, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return archives(ctx, t, func(string) bool { return false })
}

// Fetch copies one archive, by its name in List.
func (p *Place) Fetch(ctx context.Context, file string, to io.Writer) (size int64, err error) {
	if !fileForm.MatchString(file) {
		return 0, fmt.Errorf("%q is not the name of an archive", file)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := time.AfterFunc(usual.ask, cancel)
	defer patience.Stop()
	t, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer t.close()
	size, _, err = fetch(ctx, t, file, to, maxArchive, func(size int64) { patience.Reset(usual.within(size)) })
	return size, err
}
