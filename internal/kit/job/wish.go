package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Wish writes the wish for the job of the folder. It fails if there is a wish for any job already. Checking and writing are
// atomic across processes: of two wishes exactly one wins.
func (f Folder) Wish(wish any) error {
	unlock, err := f.lockWishes()
	if err != nil {
		return err
	}
	defer unlock()
	for _, other := range wished {
		if _, err := os.Lstat(f.wishOf(other.name)); other.name != f.name && err == nil {
			return other.runs
		}
	}
	if err := f.Create(wishFile, wish); errors.Is(err, fs.ErrExist) {
		return f.name.Err()
	} else if err != nil {
		return fmt.Errorf("writing down what is wanted: %w", err)
	}
	return nil
}

func (f Folder) Unwish() error { return f.Remove(wishFile) }

// lockWishes waits until no other process writes a wish. It locks the folder of restores instead of a file, which would be left
// behind.
func (f Folder) lockWishes() (unlock func(), err error) {
	shared, err := OpenFolder(f.root, Restore, f.gid)
	if err != nil {
		return nil, err
	}
	lock, err := os.Open(shared.path)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return func() { lock.Close() }, nil
}

func (f Folder) wishOf(n Name) string { return filepath.Join(f.root, n.WishFile()) }

// first returns an error if another job has an earlier wish. Whoever grants a wish checks this again: a power cut may bring back
// a wish that was about to be removed.
func (f Folder) first() error {
	var mine, theirs Wish
	if err := f.Load(wishFile, &mine); err != nil {
		return err
	}
	for _, other := range wished {
		if other.name != f.name && ReadJSON(f.wishOf(other.name), &theirs) == nil && theirs.ID < mine.ID {
			return other.runs
		}
	}
	return nil
}
