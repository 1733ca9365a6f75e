package deb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repository creates a repository of the package, with a new key.
func repository(t *testing.T) string {
	t.Helper()
	dist := filepath.Join(folder, "repository")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	must(t, "cp", thePackage(t), dist)
	must(t, "make", "repository", "DIST="+dist)
	return filepath.Join(dist, "apt")
}

// TestRepository has Debian's own programs believe the signature, and not that of a repository that was changed.
func TestRepository(t *testing.T) {
	apt := repository(t)
	key := filepath.Join(folder, "key.gpg")
	must(t, "gpg", "--batch", "--yes", "--dearmor", "--output", key, filepath.Join(apt, "gateway.asc"))
	release := filepath.Join(apt, "dists/stable/InRelease")
	must(t, "gpgv", "--keyring", key, release)
	must(t, "gpgv", "--keyring", key, filepath.Join(apt, "dists/stable/Release.gpg"), filepath.Join(apt, "dists/stable/Release"))

	source, err := os.ReadFile(filepath.Join(apt, "gateway.sources"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "URIs: file:"+apt+"\n") {
		t.Errorf("the source does not name %s:\n%s", apt, source)
	}
	home := filepath.Join(folder, "apt")
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "sources"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.ReplaceAll(string(source), "/etc/apt/keyrings/gateway.asc", filepath.Join(apt, "gateway.asc"))
	if err := os.WriteFile(filepath.Join(home, "sources/gateway.sources"), []byte(here), 0o644); err != nil {
		t.Fatal(err)
	}
	options := []string{
		"-o", "Dir::State::Lists=" + home + "/lists", "-o", "Dir::Cache=" + home + "/cache", "-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=" + home + "/sources",
		"-o", "APT::Sandbox::User=root", "-o", "APT::Update::Error-Mode=any",
	}
	must(t, append([]string{"apt-get"}, append(options, "update")...)...)
	if out := must(t, append([]string{"apt-cache"}, append(options, "policy", "gateway")...)...); !strings.Contains(out, "Candidate: "+version) {
		t.Errorf("apt finds no gateway %s:\n%s", version, out)
	}

	content, err := os.ReadFile(release)
	if err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(folder, "forged")
	if err := os.WriteFile(forged, []byte(strings.Replace(string(content), "Origin: Gateway", "Origin: Another", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run("gpgv", "--keyring", key, forged); err == nil {
		t.Error("a changed Release passes for a signed one")
	}
}
