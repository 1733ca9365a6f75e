package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"edge.internal/gateway/internal/kit/host/child"
)

// templateLife is how long a prepared folder is kept after its last use.
const templateLife = 7 * 24 * time.Hour

// StartCached starts a throw-away server whose content is prepared once: by initdb and by prepare, which gets the running server
// and may, for instance, create and migrate a template database. The prepared content is kept between runs under the name, which
// must therefore change with the content (a hash of the migrations).
//
// Every caller gets its own server, on a copy, without fsync. Stop removes the copy; if its process dies, the next caller does.
func StartCached(ctx context.Context, name string, prepare func(ctx context.Context, s *Server) error) (*Server, error) {
	s, err := startCached(ctx, name, prepare)
	if err != nil {
		return nil, fmt.Errorf("starting a cached postgresql %q: %w", name, err)
	}
	return s, nil
}

func startCached(ctx context.Context, name string, prepare func(context.Context, *Server) error) (*Server, error) {
	if name == "" || strings.ContainsAny(name, "/.") {
		return nil, fmt.Errorf("%q cannot name a folder", name)
	}
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	who, err := serverOwner()
	if err != nil {
		return nil, err
	}
	base, err := cacheFolder()
	if err != nil {
		return nil, err
	}
	dir, lock, err := copyTemplate(ctx, base, templateOf(base, name, bin), who, prepare)
	if err != nil {
		return nil, err
	}
	opts := Options{Dir: dir, SocketDir: filepath.Join(dir, "run")}
	s, err := launch(ctx, bin, who, filepath.Join(dir, "data"), lock, opts)
	lock.Close()
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s.cleanup = func() error { return os.RemoveAll(dir) }
	return s, nil
}

// copyEmpty makes a data folder by copying one that initdb made before. That takes a twentieth of the time, but suits only
// throw-away servers: all copies have the same system identifier.
func copyEmpty(ctx context.Context, bin string, _ owner, data string) error {
	base, err := cacheFolder()
	if err != nil {
		return err
	}
	cache, err := lockFolder(ctx, base)
	if err != nil {
		return err
	}
	defer cache.Close()
	template := templateOf(base, "empty", bin)
	if err := ensureTemplate(ctx, template, func(context.Context, *Server) error { return nil }); err != nil {
		return err
	}
	return copyData(template, data)
}

// templateOf returns the path of a prepared folder for a version of PostgreSQL.
func templateOf(base, name, bin string) string {
	return filepath.Join(base, fmt.Sprintf("template-%s-pg%d", name, version(filepath.Join(bin, "postgres"))))
}

// cacheFolder holds the prepared folders (template-*) and their copies (copy-*).
func cacheFolder() (string, error) {
	base := filepath.Join(os.TempDir(), fmt.Sprintf("gateway-postgresql-%d", os.Geteuid()))
	if err := os.Mkdir(base, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(base)
	if err != nil {
		return "", err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to another user", base)
	}
	return base, nil
}

// copyTemplate copies a prepared folder, and prepares it first if necessary. The lock of the cache folder serializes processes;
// the lock of the copy says that it is in use.
func copyTemplate(ctx context.Context, base, template string, who owner, prepare func(context.Context, *Server) error) (string, *os.File, error) {
	cache, err := lockFolder(ctx, base)
	if err != nil {
		return "", nil, err
	}
	defer cache.Close()
	if err := sweep(base, template); err != nil {
		return "", nil, err
	}
	if err := ensureTemplate(ctx, template, prepare); err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp(base, "copy-")
	if err != nil {
		return "", nil, err
	}
	lock, err := fill(dir, template, who)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	return dir, lock, nil
}

// ensureTemplate prepares the template if it does not exist. It is built in another folder and renamed, so that it is complete or
// absent.
func ensureTemplate(ctx context.Context, template string, prepare func(context.Context, *Server) error) error {
	now := time.Now()
	if err := os.Chtimes(template, now, now); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := filepath.Join(filepath.Dir(template), "new")
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	s, err := start(ctx, Options{Dir: fresh}, initdb)
	if err != nil {
		return err
	}
	err = prepare(ctx, s)
	if stopped := s.Stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	return os.Rename(fresh, template)
}

// fill copies the template's data into the folder and locks the folder.
func fill(dir, template string, who owner) (*os.File, error) {
	for _, d := range []string{dir, filepath.Join(dir, "run")} {
		if err := who.makeFolder(d); err != nil {
			return nil, err
		}
	}
	if err := copyData(template, filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	return tryLock(dir)
}

// copyData copies a template's data to a new folder.
func copyData(template, data string) error {
	cp := exec.Command("cp", "-a", "--reflink=auto", filepath.Join(template, "data"), data)
	var output child.Tail
	cp.Stdout, cp.Stderr = &output, &output
	if err := child.Run(cp); err != nil {
		return fmt.Errorf("copying: %w: %s", err, output.LastLines())
	}
	return nil
}

// sweep removes unused copies, and templates that have not been used for a long time.
func sweep(base, keep string) error {
	copies, _ := filepath.Glob(filepath.Join(base, "copy-*"))
	for _, dir := range copies {
		lock, err := tryLock(dir)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			lock.Close()
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	templates, _ := filepath.Glob(filepath.Join(base, "template-*"))
	for _, dir := range templates {
		info, err := os.Stat(dir)
		if err != nil || dir == keep || time.Since(info.ModTime()) < templateLife {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
