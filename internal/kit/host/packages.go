package host

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

const GatewayPackage = "gateway"

// ListsFile records the last refresh of apt's package lists.
const ListsFile = "/var/lib/gateway-upgrade/lists.json"

// Packages reads what apt and dpkg know about the gateway and its daemons.
type Packages interface {
	// PackageVersions returns the versions of all packages in the closed list.
	PackageVersions(ctx context.Context) (PackageVersions, error)
	// RefreshPackages starts apt update and does not wait for it. If the gateway is not installed as a package, it is
	// ErrNotInstalled.
	RefreshPackages(ctx context.Context) error
}

var packagesVerbs = daemon.Verbs{
	"PackageVersions": daemon.Local,
	"RefreshPackages": daemon.Repeatable,
}

// PackageVersions is what apt knows, and how old that knowledge is.
type PackageVersions struct {
	Packages []PackageVersion
	Lists    PackageLists
}

type PackageVersion struct {
	Name string
	// Installed is empty if the package is not installed.
	Installed string
	// Available is the version that apt would install; empty if it knows none.
	Available string
	// Newer lists the versions after the installed one, newest first.
	Newer []string
	// Security is set if a newer version comes from a security archive.
	Security bool
}

// PackageLists is the state of apt's package lists.
type PackageLists struct {
	RefreshedAt time.Time
	Refreshing  bool
	Error       string
}

type PackageFile struct {
	Version string `json:"version"`
	File    string `json:"file"`    // its name in the package folder
	SHA256  string `json:"sha256"`  // of the file, in hex
	Unpacks int64  `json:"unpacks"` // bytes on disk once installed
}

// versionForm matches no command line option, so a version can be an argument of apt.
var versionForm = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~:-]{0,63}$`)

func IsVersion(s string) error {
	if !versionForm.MatchString(s) {
		return fmt.Errorf("%.70q is not a package version", s)
	}
	return nil
}
