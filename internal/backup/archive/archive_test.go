package archive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"edge.internal/gateway/internal/backup/archive"
)

var at = time.Date(2026, 6, 1, 2, 0, 0, 0, time.UTC)

func source(t testing.TB, name, content string) archive.Source {
	t.Helper()
	p, err := archive.Measure(name, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return archive.Source{Part: p, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
}

var manifest = archive.Manifest{Version: "1.0.0", Schema: 16, Kind: "manual", Host: "gateway", CreatedAt: at, KeyID: "0011223344556677", Interfaces: []string{"eth0"}}

func sample(t testing.TB, passphrase string) ([]byte, []archive.Source) {
	t.Helper()
	sources := []archive.Source{
		source(t, archive.Database, strings.Repeat("PGDMP rows\n", 100)), source(t, "state/setup.json", `{"completed":true}`),
		source(t, "state/acme/acme-v02-0a1b2c3d.json", "{}"), source(t, "config/node.conf", "ROLE=standalone\n"),
	}
	var out bytes.Buffer
	w, err := archive.Write(&out, manifest, sources, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(out.Bytes()); w.Size != int64(out.Len()) || w.SHA256 != strings.ToLower(hexOf(sum[:])) {
		t.Fatalf("%+v does not describe the file of %d bytes", w, out.Len())
	}
	return out.Bytes(), sources
}

func hexOf(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, x := range b {
		s.WriteByte(digits[x>>4])
		s.WriteByte(digits[x&15])
	}
	return s.String()
}

func TestRoundTrip(t *testing.T) {
	for _, passphrase := range []string{"", "correct horse battery"} {
		file, sources := sample(t, passphrase)
		if archive.Encrypted(file) != (passphrase != "") {
			t.Fatal("encrypted or not?")
		}
		r, err := archive.Open(bytes.NewReader(file), int64(len(file)), passphrase)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sources {
			p, in, err := r.Next()
			if err != nil || p != s.Part {
				t.Fatalf("%+v %v", p, err)
			}
			got, err := io.ReadAll(in)
			want, _ := s.Open()
			b, _ := io.ReadAll(want)
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("%s: %q %v", p.Name, got, err)
			}
		}
		if _, _, err := r.Next(); err != io.EOF {
			t.Fatal(err)
		}
		r.Close()
		if r.Manifest.KeyID != manifest.KeyID || r.Manifest.Schema != 16 || len(r.Manifest.Parts) != len(sources) {
			t.Fatalf("%+v", r.Manifest)
		}
	}
}

func TestPassphrase(t *testing.T) {
	file, _ := sample(t, "correct horse battery")
	for _, given := range []string{"", "another one"} {
		if _, err := archive.Verify(bytes.NewReader(file), int64(len(file)), given); !errors.Is(err, archive.ErrPassphrase) {
			t.Errorf("%q: %v", given, err)
		}
	}
}

// BK05: one flipped bit anywhere is noticed, and so is a file that is too short or too long.
func TestBK05EveryFlippedBitIsNoticed(t *testing.T) {
	file, _ := sample(t, "")
	size := int64(len(file))
	for i := range len(file) * 8 {
		bad := bytes.Clone(file)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := archive.Verify(bytes.NewReader(bad), size, ""); err == nil {
			t.Fatalf("bit %d of byte %d of %d", i%8, i/8, size)
		}
	}
	for n := range len(file) {
		if _, err := archive.Verify(bytes.NewReader(file[:n]), size, ""); err == nil {
			t.Fatalf("cut off after %d bytes", n)
		}
	}
	if _, err := archive.Verify(bytes.NewReader(append(bytes.Clone(file), 0)), size, ""); err == nil {
		t.Error("a byte more")
	}
	// Deriving the key is slow, so only some bits are tried.
	sealed, _ := sample(t, "correct horse battery")
	for i := 0; i < len(sealed); i += 61 {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1 << (i % 8)
		if _, err := archive.Verify(bytes.NewReader(bad), int64(len(bad)), "correct horse battery"); err == nil {
			t.Fatalf("byte %d of %d, encrypted", i, len(sealed))
		}
	}
}

// forge writes an archive that no gateway writes: with any manifest and any entries, but a correct footer.
func forge(t *testing.T, m archive.Manifest, entries func(*tar.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "manifest.json", Mode: 0o600, Size: int64(len(b))}), second(w.Write(b)), entries(w), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(out.Bytes())
	footer := binary.LittleEndian.AppendUint32(nil, 0x184D2A5E)
	out.Write(binary.LittleEndian.AppendUint32(footer, 32))
	out.Write(sum[:])
	return out.Bytes()
}

func second(_ int, err error) error { return err }

func TestHostileArchives(t *testing.T) {
	dump := source(t, archive.Database, "rows").Part
	setup := source(t, "state/setup.json", "{}").Part
	m := manifest
	m.Format = archive.Format
	with := func(parts ...archive.Part) archive.Manifest { m := m; m.Parts = parts; return m }
	file := func(w *tar.Writer, h *tar.Header, content string) error {
		h.Mode, h.Size = 0o600, int64(len(content))
		return errors.Join(w.WriteHeader(h), second(io.WriteString(w, content)))
	}
	good := func(w *tar.Writer) error {
		return errors.Join(file(w, &tar.Header{Name: dump.Name}, "rows"), file(w, &tar.Header{Name: setup.Name}, "{}"))
	}
	if _, err := archive.Verify(bytes.NewReader(forge(t, with(dump, setup), good)), -1, ""); err != nil {
		t.Fatalf("what is forged well is refused: %v", err)
	}
	named := func(name string) archive.Part { p := setup; p.Name = name; return p }
	sized := func(p archive.Part, size int64) archive.Part { p.Size = size; return p }
	entry := func(h tar.Header, content string) func(w *tar.Writer) error {
		return func(w *tar.Writer) error {
			return errors.Join(file(w, &tar.Header{Name: dump.Name}, "rows"), file(w, &h, content))
		}
	}
	for name, x := range map[string]struct {
		m       archive.Manifest
		entries func(*tar.Writer) error
	}{
		"a way out in the manifest": {with(dump, named("state/../../etc/passwd")), entry(tar.Header{Name: "state/../../etc/passwd"}, "{}")},
		"a way out in the tar":      {with(dump, setup), entry(tar.Header{Name: "../setup.json"}, "{}")},
		"an absolute name":          {with(dump, named("/etc/cron.d/x")), entry(tar.Header{Name: "/etc/cron.d/x"}, "{}")},
		"an absolute name in tar":   {with(dump, setup), entry(tar.Header{Name: "/state/setup.json"}, "{}")},
		"a way out among accounts":  {with(dump, named("state/acme/..json")), entry(tar.Header{Name: "state/acme/..json"}, "{}")},
		"a folder among accounts":   {with(dump, named("state/acme/a/b.json")), entry(tar.Header{Name: "state/acme/a/b.json"}, "{}")},
		"another file":              {with(dump, named("state/.ssh/authorized_keys")), entry(tar.Header{Name: "state/.ssh/authorized_keys"}, "{}")},
		"a symbolic link":           {with(dump, setup), entry(tar.Header{Name: setup.Name, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")},
		"a hard link":               {with(dump, setup), entry(tar.Header{Name: setup.Name, Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, "")},
		"a device":                  {with(dump, setup), entry(tar.Header{Name: setup.Name, Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 8}, "")},
		"a pipe":                    {with(dump, setup), entry(tar.Header{Name: setup.Name, Typeflag: tar.TypeFifo}, "")},
		"a folder":                  {with(dump, setup), entry(tar.Header{Name: setup.Name, Typeflag: tar.TypeDir}, "")},
		"properties":                {with(dump, setup), entry(tar.Header{Name: setup.Name, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}, "{}")},
		"twice the same":            {with(dump, setup, setup), entry(tar.Header{Name: setup.Name}, "{}")},
		"one more than named": {with(dump, setup), func(w *tar.Writer) error {
			return errors.Join(good(w), file(w, &tar.Header{Name: "config/master.key"}, "{}"))
		}},
		"one fewer than named": {with(dump, setup), func(w *tar.Writer) error { return file(w, &tar.Header{Name: dump.Name}, "rows") }},
		"no database":          {with(setup), func(w *tar.Writer) error { return file(w, &tar.Header{Name: setup.Name}, "{}") }},
		"another content":      {with(dump, setup), entry(tar.Header{Name: setup.Name}, "[]")},
		"another size":         {with(dump, sized(setup, 3)), entry(tar.Header{Name: setup.Name}, "{}")},
		"a negative size":      {with(dump, sized(setup, -1)), entry(tar.Header{Name: setup.Name}, "{}")},
		"a long state file":    {with(dump, sized(setup, archive.PartLimit+1)), entry(tar.Header{Name: setup.Name}, "{}")},
		"another form":         {func() archive.Manifest { m := with(dump); m.Format = 2; return m }(), good},
	} {
		if _, err := archive.Verify(bytes.NewReader(forge(t, x.m, x.entries)), -1, ""); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	// A sparse file: 100 GB that take no room in the archive.
	holes := append(bytes.Clone(forge(t, with(sized(dump, 100<<30), setup), good)), 0)
	if _, err := archive.Verify(bytes.NewReader(holes), int64(len(holes)), ""); err == nil || !strings.Contains(err.Error(), "times its size") {
		t.Errorf("a hundred gigabytes in %d bytes: %v", len(holes), err)
	}
}

// endless is a stream of zeros that are never stored.
type endless struct{ left int64 }

func (e *endless) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), e.left)
	clear(b[:n])
	e.left -= n
	return int(n), nil
}

// A long dump is written and verified in little memory.
func TestMemoryIsBounded(t *testing.T) {
	const size = 256 << 20
	p, err := archive.Measure(archive.Database, &endless{size})
	if err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	go func() {
		_, err := archive.Write(pw, manifest, []archive.Source{{Part: p, Open: func() (io.ReadCloser, error) { return io.NopCloser(&endless{size}), nil }}}, "")
		pw.CloseWithError(err)
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	if _, err := archive.Verify(pr, -1, ""); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB", grown>>20)
	}
}
