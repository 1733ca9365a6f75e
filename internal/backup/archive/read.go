package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// sealedPrefix is the beginning of every age file.
const sealedPrefix = "age-encryption.org/"

// Reader reads an archive from start to end. Its content may not be trusted before Next returns io.EOF.
type Reader struct {
	Manifest Manifest
	// Encrypted reports whether opening it took a passphrase.
	Encrypted bool

	tar    *tar.Reader
	packed *zstd.Decoder
	framed *framed
	at     int // index of the next part
	part   *partReader
}

// Encrypted reports whether an archive that begins like this is encrypted.
func Encrypted(begin []byte) bool { return bytes.HasPrefix(begin, []byte(sealedPrefix)) }

// Open reads the manifest. size is the archive's size, or negative if unknown. The caller must close the reader.
func Open(r io.Reader, size int64, passphrase string) (*Reader, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	begin, err := in.Peek(len(sealedPrefix))
	if err != nil {
		return nil, damaged("it is too short")
	}
	a := &Reader{Encrypted: Encrypted(begin)}
	var body io.Reader = in
	if a.Encrypted {
		if body, err = decrypt(in, passphrase); err != nil {
			return nil, err
		}
	}
	a.framed = &framed{in: body, sum: sha256.New()}
	a.packed, err = zstd.NewReader(a.framed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	a.tar = tar.NewReader(a.packed)
	if err := a.manifest(size); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

func decrypt(in io.Reader, passphrase string) (io.Reader, error) {
	if passphrase == "" {
		return nil, fmt.Errorf("%w: it is encrypted, so that a passphrase is needed", ErrPassphrase)
	}
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	identity.SetMaxWorkFactor(maxWorkFactor)
	body, err := age.Decrypt(in, identity)
	if _, no := errors.AsType[*age.NoIdentityMatchError](err); no {
		return nil, ErrPassphrase
	}
	if err != nil {
		return nil, damaged("%w", err)
	}
	return body, nil
}

func (a *Reader) manifest(size int64) error {
	head, err := a.tar.Next()
	if err != nil {
		return damaged("it has no manifest: %w", err)
	}
	if err := plain(head, manifestName); err != nil {
		return err
	}
	if head.Size > manifestLimit {
		return damaged("its manifest is longer than %d bytes", manifestLimit)
	}
	content, err := io.ReadAll(a.tar)
	if err != nil {
		return damaged("its manifest cannot be read: %w", err)
	}
	a.Manifest, err = parse(content, size)
	return err
}

// plain refuses an entry that is not the expected plain file: a link, a device, a sparse file, another name.
func plain(head *tar.Header, name string) error {
	if head.Typeflag != tar.TypeReg || head.Linkname != "" {
		return damaged("%.80q is not a plain file", head.Name)
	}
	for key := range head.PAXRecords {
		if key != "size" { // for a file too long for the old header
			return damaged("%.80q has the property %.80q, which no gateway writes", head.Name, key)
		}
	}
	if head.Name != name {
		return damaged("it has %.80q where %s belongs", head.Name, name)
	}
	return nil
}

// Next moves to the next part. After the last part it returns io.EOF if the whole archive is intact.
func (a *Reader) Next() (Part, io.Reader, error) {
	if err := a.next(); err != nil {
		return Part{}, nil, err
	}
	return a.part.part, a.part, nil
}

func (a *Reader) next() error {
	if a.part != nil {
		if _, err := io.Copy(io.Discard, a.part); err != nil {
			return err
		}
	}
	if a.at == len(a.Manifest.Parts) {
		a.part = nil
		return a.end()
	}
	p := a.Manifest.Parts[a.at]
	head, err := a.tar.Next()
	if err != nil {
		return damaged("%s is missing: %w", p.Name, err)
	}
	if err := plain(head, p.Name); err != nil {
		return err
	}
	if head.Size != p.Size {
		return damaged("%s has %d bytes instead of %d", p.Name, head.Size, p.Size)
	}
	a.at++
	a.part = &partReader{in: a.tar, part: p, sum: newSumming()}
	return nil
}

// end makes sure that nothing follows the last part.
func (a *Reader) end() error {
	if head, err := a.tar.Next(); err == nil {
		return damaged("it has %.80q, which its manifest does not name", head.Name)
	} else if err != io.EOF {
		return damaged("its end cannot be read: %w", err)
	}
	if n, err := io.Copy(io.Discard, a.packed); err != nil {
		return damaged("its end cannot be read: %w", err)
	} else if n > 0 {
		return damaged("there is data after its end")
	}
	// The decoder may have stopped before it read all frames.
	if _, err := io.Copy(io.Discard, a.framed); err != nil {
		return err
	}
	return io.EOF
}

// Close releases the decoder. It does not close the underlying reader.
func (a *Reader) Close() {
	if a.packed != nil {
		a.packed.Close()
	}
}

// Verify reads and checks a whole archive.
func Verify(r io.Reader, size int64, passphrase string) (Manifest, error) {
	a, err := Open(r, size, passphrase)
	if err != nil {
		return Manifest{}, err
	}
	defer a.Close()
	for {
		if _, _, err := a.Next(); err == io.EOF { //nolint:errorlint // io.EOF is never wrapped; a wrapped one is a failure
			return a.Manifest, nil
		} else if err != nil {
			return a.Manifest, err
		}
	}
}

// partReader returns the bytes of a part, and an error at its end if they differ from the manifest.
type partReader struct {
	in   io.Reader
	part Part
	sum  *summing
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	_, _ = p.sum.Write(b[:n])
	if err == io.EOF && (p.sum.n != p.part.Size || p.sum.hex() != p.part.SHA256) { //nolint:errorlint // io.EOF is never wrapped; a wrapped one is a failure
		return n, damaged("%s has been changed", p.part.Name)
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.EOF is never wrapped; a wrapped one is a failure
		err = damaged("%s cannot be read: %w", p.part.Name, err)
	}
	return n, err
}

// framed returns everything but the footer, and checks the footer at the end.
type framed struct {
	in   io.Reader
	sum  hash.Hash
	held []byte // the last bytes read, which may be the footer
	read [32 << 10]byte
	done error
}

func (f *framed) Read(b []byte) (int, error) {
	if f.done != nil {
		return 0, f.done
	}
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, err := f.in.Read(f.read[:min(len(b), len(f.read))])
		f.held = append(f.held, f.read[:n]...)
		ready := len(f.held) - footerSize
		if ready > 0 {
			ready = copy(b, f.held[:ready])
			f.sum.Write(b[:ready])
			f.held = append(f.held[:0], f.held[ready:]...)
			return ready, nil
		}
		if err == io.EOF {
			f.done = f.compare()
			return 0, f.done
		}
		if err != nil {
			f.done = damaged("it cannot be read: %w", err)
			return 0, f.done
		}
	}
}

// compare checks the footer against the hash of everything before it.
func (f *framed) compare() error {
	want := binary.LittleEndian.AppendUint32(nil, skippable)
	want = binary.LittleEndian.AppendUint32(want, footerSize-8)
	want = f.sum.Sum(want)
	if !bytes.Equal(f.held, want) {
		return damaged("its hash is not that of its content")
	}
	return io.EOF
}
