package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"edge.internal/gateway/internal/kit/outbound"
)

type folder struct {
	ssh   *ssh.Client
	sftp  *sftp.Client
	dir   string
	ended chan error // why the connection ended
}

// cause finds out why a connection was lost, because SFTP itself does not know.
func (f *folder) cause(err error) error {
	if !errors.Is(err, sftp.ErrSSHFxConnectionLost) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	select {
	case why := <-f.ended:
		f.ended <- why
		return fmt.Errorf("%w: %w", err, why)
	case <-time.After(time.Second): // it has ended or is about to
		return err
	}
}

// hostKeys lists the key algorithms by preference. A server has several keys and the stored fingerprint matches one of them, so each
// algorithm is tried until it is found.
var hostKeys = [][]string{
	{ssh.KeyAlgoED25519},
	{ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521},
	{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
}

func errOtherKey(fingerprint string) error {
	return failed(true, "the server's key has changed (it is %s now). If you replaced the server, clear the stored fingerprint to trust the new key; "+
		"otherwise someone may be intercepting the connection. Nothing was sent to it", fingerprint)
}

func connectSFTP(ctx context.Context, door *outbound.Door, s SFTP, k keys, l outbound.Limits) (t target, fingerprint string, err error) {
	config := &ssh.ClientConfig{User: s.Username}
	if k.privateKey != "" {
		key, err := parseKey(k.privateKey)
		if err != nil {
			return nil, "", failed(true, "the private key %v", err)
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(key))
	}
	if k.password != "" {
		config.Auth = append(config.Auth, ssh.Password(k.password), ssh.KeyboardInteractive(func(_, _ string, questions []string, echos []bool) ([]string, error) {
			// Some servers ask for the password as a question. Other questions are not answered.
			if len(questions) > 1 || len(questions) == 1 && echos[0] {
				return nil, errors.New("the server asks for more than a password")
			}
			return []string{k.password}[:len(questions)], nil
		}))
	}
	kinds := [][]string{concat(hostKeys)}
	if s.HostKeyFingerprint != "" {
		kinds = hostKeys
	}
	var other error
	for _, config.HostKeyAlgorithms = range kinds {
		config.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error {
			// The key is checked before we send anything about who we are.
			fingerprint = ssh.FingerprintSHA256(key)
			if s.HostKeyFingerprint != "" && fingerprint != s.HostKeyFingerprint {
				return errOtherKey(fingerprint)
			}
			return nil
		}
		f, err := dialSFTP(ctx, door, s, config, l)
		if err == nil {
			return f, fingerprint, nil
		}
		_, none := errors.AsType[*ssh.AlgorithmNegotiationError](err)
		if isOther := s.HostKeyFingerprint != "" && fingerprint != "" && fingerprint != s.HostKeyFingerprint; !isOther && !none {
			return nil, "", err
		} else if other == nil || isOther {
			other = err
		}
		fingerprint = ""
	}
	return nil, "", other
}

// hostKey asks a server for its key, and sends nothing else.
func hostKey(ctx context.Context, door *outbound.Door, s SFTP, l outbound.Limits) (fingerprint string, err error) {
	enough := errors.New("the key is known")
	f, err := dialSFTP(ctx, door, s, &ssh.ClientConfig{User: s.Username, HostKeyAlgorithms: concat(hostKeys), HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
		fingerprint = ssh.FingerprintSHA256(key)
		return enough
	}}, l)
	if f != nil {
		f.close()
	}
	if fingerprint != "" {
		err = nil
	}
	return fingerprint, err
}

func concat(lists [][]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

func dialSFTP(ctx context.Context, door *outbound.Door, s SFTP, config *ssh.ClientConfig, l outbound.Limits) (*folder, error) {
	address := net.JoinHostPort(s.Host.String(), strconv.Itoa(s.Port))
	conn, err := door.Dial(ctx, address, l)
	if err != nil {
		return nil, err
	}
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	f := &folder{ssh: ssh.NewClient(c, channels, requests), dir: s.RemoteDir, ended: make(chan error, 1)}
	go func() { f.ended <- c.Wait() }()
	if f.sftp, err = sftp.NewClient(f.ssh, sftp.MaxConcurrentRequestsPerFile(inFlight)); err != nil {
		_ = f.ssh.Close()
		if why := outbound.Explain(err); why != "" {
			return nil, failed(false, "the server has no SFTP for this user: %s", why)
		}
		return nil, failed(true, "the server has no SFTP for this user")
	}
	return f, nil
}

// inFlight is how many packets of 32 KiB are sent without waiting for an answer.
const inFlight = 32

func (f *folder) at(name string) string { return path.Join(f.dir, name) }

// partial returns the name of a file until it is complete.
func partial(name string) string { return "." + name + ".part" }

func (f *folder) put(ctx context.Context, name string, from *io.SectionReader) error {
	return f.cause(f.write(ctx, name, from))
}

func (f *folder) write(ctx context.Context, name string, from *io.SectionReader) (err error) {
	if f.dir != "" {
		if err := f.sftp.MkdirAll(f.dir); err != nil {
			return err
		}
	}
	part := f.at(partial(name))
	to, err := f.sftp.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			_ = f.sftp.Remove(part)
		}
	}()
	n, err := to.ReadFromWithConcurrency(from, inFlight)
	if err == nil {
		err = to.Close()
	} else {
		_ = to.Close()
	}
	if err != nil {
		return err
	}
	info, err := f.sftp.Stat(part)
	if err != nil {
		return err
	}
	if n != from.Size() || info.Size() != from.Size() {
		return failed(false, "the server did not store all of it")
	}
	return f.rename(part, f.at(name))
}

// rename replaces an existing file. Servers other than OpenSSH may need the old one removed first.
func (f *folder) rename(from, to string) error {
	if _, ok := f.sftp.HasExtension("posix-rename@openssh.com"); ok {
		return f.sftp.PosixRename(from, to)
	}
	if err := f.sftp.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.sftp.Rename(from, to)
}

func (f *folder) list(ctx context.Context, prefix string) ([]entry, error) {
	dir := f.dir
	if dir == "" {
		dir = "."
	}
	files, err := f.sftp.ReadDirContext(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the first upload creates it
	}
	var list []entry
	for _, file := range files {
		if file.Mode().IsRegular() && strings.HasPrefix(file.Name(), prefix) {
			list = append(list, entry{file.Name(), file.Size(), file.ModTime()})
		}
	}
	if len(list) > maxEntries {
		return nil, failed(true, "there are more than %d archives", maxEntries)
	}
	return list, f.cause(err)
}

func (f *folder) get(_ context.Context, name string) (io.ReadCloser, int64, error) {
	file, err := f.sftp.Open(f.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, failed(true, "the archive does not exist")
	}
	if err != nil {
		return nil, 0, f.cause(err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, f.cause(err)
	}
	return reading{file, f}, info.Size(), nil
}

// reading is a file that explains why it ended early.
type reading struct {
	*sftp.File
	from *folder
}

func (r reading) Read(b []byte) (int, error) {
	n, err := r.File.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // the end itself
		err = r.from.cause(err)
	}
	return n, err
}

func (f *folder) remove(_ context.Context, name string) error {
	return f.cause(f.sftp.Remove(f.at(name)))
}

func (f *folder) close() { _ = f.ssh.Close() }

// explainSFTP uses only the kind of an error, because a server's text is not trusted.
func explainSFTP(err error) *failure {
	if _, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return failed(true, "the server and the gateway have no encryption method in common")
	}
	if status, ok := errors.AsType[*sftp.StatusError](err); ok {
		return failed(false, "the server refused (status %d): the disk may be full", status.Code)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return failed(true, "the user may not write to the folder")
	case errors.Is(err, fs.ErrNotExist):
		return failed(true, "the folder does not exist")
	case err != nil && strings.Contains(err.Error(), "ssh: unable to authenticate"):
		return failed(true, "the server does not accept the user with this password or key")
	}
	return nil
}
