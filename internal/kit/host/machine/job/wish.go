package job

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"edge.internal/gateway/internal/kit/host"
)

// wishes are the files by which jobs are wished for, with what is said while one has not ended. Each replaces what the gateway runs on, or
// what it has stored, so there is one at a time.
var wishes = map[string]error{host.UpgradeWishFile: host.ErrUpgradeRuns, host.RestoreWishFile: host.ErrRestoreRuns, host.RepairWishFile: host.ErrRepairRuns}

// Wish writes a wish down. While another job, or another of the same kind, is wished for, that is the error. Looking and writing are one step,
// whichever process does it: of two wishes exactly one wins.
func (f Folder) Wish(file string, wish any) error {
	shared, err := OpenFolder(f.home, host.RestoreFolder)
	if err != nil {
		return err
	}
	lock, err := os.Open(shared.path) // the folder itself: a restore leaves no file behind in it
	if err != nil {
		return err
	}
	defer lock.Close()
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return err
	}
	for other, runs := range wishes {
		if _, err := os.Lstat(f.home.Path(other)); other != file && err == nil {
			return runs
		}
	}
	if err := f.Create(file, wish); errors.Is(err, fs.ErrExist) {
		return wishes[file]
	} else if err != nil {
		return err
	}
	return nil
}

// First complains when another job was wished for earlier, and has not ended. Who grants a wish looks again: a power cut may bring back a wish
// that was about to be removed.
func (f Folder) First(file string) error {
	var mine, theirs struct {
		ID string `json:"id"` // in the order of time
	}
	if err := f.Load(file, &mine); err != nil {
		return err
	}
	for other, runs := range wishes {
		if other != file && ReadJSON(f.home.Path(other), &theirs) == nil && theirs.ID < mine.ID {
			return runs
		}
	}
	return nil
}
