package archive

import (
	"archive/tar"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Source is a part with its content.
type Source struct {
	Part
	Open func() (io.ReadCloser, error)
}

// Written is the size and the hash of a written archive.
type Written struct {
	Size   int64
	SHA256 string
}

const (
	// windowSize limits the memory of both sides.
	windowSize = 1 << 20
	// workFactor sets the cost of deriving the key from the passphrase: 64 MiB and a fraction of a second each time. maxWorkFactor limits
	// what a foreign archive may demand.
	workFactor, maxWorkFactor = 16, 18
)

// skippable is the magic number of a frame that zstd readers skip.
const skippable = 0x184D2A5E

// footerSize is the size of the frame with the hash.
const footerSize = 8 + 32

// Write writes an archive. The manifest's parts are those of the sources. With a passphrase the archive is encrypted.
func Write(w io.Writer, m Manifest, sources []Source, passphrase string) (Written, error) {
	whole := newSumming()
	out := io.MultiWriter(w, whole)
	if passphrase == "" {
		err := write(out, m, sources)
		return Written{whole.n, whole.hex()}, err
	}
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return Written{}, err
	}
	recipient.SetWorkFactor(workFactor)
	sealed, err := age.Encrypt(out, recipient)
	if err != nil {
		return Written{}, err
	}
	if err := write(sealed, m, sources); err != nil {
		return Written{}, err
	}
	err = sealed.Close()
	return Written{whole.n, whole.hex()}, err
}

func write(w io.Writer, m Manifest, sources []Source) error {
	m.Format, m.Parts = Format, nil
	for _, s := range sources {
		m.Parts = append(m.Parts, s.Part)
	}
	manifest, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if _, err := parse(manifest, -1); err != nil {
		return err
	}
	body := newSumming()
	packed, err := zstd.NewWriter(io.MultiWriter(w, body), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(windowSize), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	t := tar.NewWriter(packed)
	if err := add(t, m.CreatedAt, Part{Name: manifestName, Size: int64(len(manifest))}, manifest); err != nil {
		return err
	}
	for _, s := range sources {
		if err := copyPart(t, m.CreatedAt, s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	if err := errors.Join(t.Close(), packed.Close()); err != nil {
		return err
	}
	footer := binary.LittleEndian.AppendUint32(nil, skippable)
	footer = binary.LittleEndian.AppendUint32(footer, footerSize-8)
	_, err = w.Write(body.sum.Sum(footer))
	return err
}

func header(at time.Time, p Part) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: p.Name, Size: p.Size, Mode: 0o600, ModTime: at.Truncate(time.Second)}
}

func add(t *tar.Writer, at time.Time, p Part, content []byte) error {
	if err := t.WriteHeader(header(at, p)); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}

// copyPart copies a part, and fails if it differs from what was measured.
func copyPart(t *tar.Writer, at time.Time, s Source) error {
	in, err := s.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := t.WriteHeader(header(at, s.Part)); err != nil {
		return err
	}
	sum := newSumming()
	if _, err := io.Copy(io.MultiWriter(t, sum), in); err != nil {
		return err
	}
	if sum.n != s.Size || sum.hex() != s.SHA256 {
		return errors.New("it changed while it was being backed up")
	}
	return nil
}
