package host

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"edge.internal/gateway/internal/kit/host/daemon"
)

// GatewayPackage is the package that the gateway itself comes in.
const GatewayPackage = "gateway"

// ListsFile is the last refresh of apt's lists.
const ListsFile = "/var/lib/gateway-upgrade/lists.json"

// Packages is what apt and dpkg know of the gateway and of its daemons.
type Packages interface {
	// PackageVersions tells the versions of all packages of the closed list.
	PackageVersions(ctx context.Context) (PackageVersions, error)
	// RefreshPackages has apt fetch its lists, and does not wait for it. A machine whose gateway is no package is ErrNotInstalled.
	RefreshPackages(ctx context.Context) error
}

var packagesVerbs = daemon.Verbs{
	"PackageVersions": daemon.Local,
	"RefreshPackages": daemon.Repeatable,
}

// PackageVersions are the versions of packages, and how old that knowledge is.
type PackageVersions struct {
	Packages []PackageVersion
	Lists    PackageLists
}

// PackageVersion is what is known about one package.
type PackageVersion struct {
	Name string
	// Installed is empty for a package that is not installed.
	Installed string
	// Available is what apt would install; empty when apt knows none.
	Available string
	// Newer are the versions after the installed one, the newest first.
	Newer []string
	// Security says that one of the newer ones comes from a security archive.
	Security bool
}

// PackageLists is the state of apt's lists.
type PackageLists struct {
	RefreshedAt time.Time
	Refreshing  bool
	// Error is why the last refresh failed; empty when it did not.
	Error string
}

// PackageFile is a package that was fetched.
type PackageFile struct {
	Version string `json:"version"`
	File    string `json:"file"`    // its name in the folder of packages
	SHA256  string `json:"sha256"`  // of the file
	Unpacks int64  `json:"unpacks"` // bytes that it takes when it is installed
}

// versionForm is that of a version of Debian, which an option of a program never has.
var versionForm = regexp.MustCompile(`^[0-9][A-Za-z0-9.+~:-]{0,63}$`)

// IsVersion complains about a text that is no version of a package.
func IsVersion(s string) error {
	if !versionForm.MatchString(s) {
		return fmt.Errorf("%.70q is not the version of a package", s)
	}
	return nil
}
