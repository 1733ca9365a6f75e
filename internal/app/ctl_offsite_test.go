package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host/daemon/home"
	"edge.internal/gateway/internal/kit/host/machine/backups"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/test/offsite"
)

// A backup is copied to a target, and fetched from it on the command line, which needs neither gateway-api nor a database.
func TestCtlOffsite(t *testing.T) {
	server := offsite.NewS3(t, false)
	bench := kittest.New(t)
	bench.Machine.LendPostgreSQL(backups.New(home.Home{}, nil, dbtest.Address(bench.DB), nil))
	h := build(t, bench)
	admin := h.setUp(t)
	h.call(t, admin, http.MethodPost, "/backup-remotes", map[string]any{"kind": "s3", "settings": server.Settings(), "allow_internal": true}).Want(t, http.StatusCreated)
	var made struct {
		Status        string `json:"status"`
		Error         string `json:"error"`
		SHA256        string `json:"sha256"`
		RemoteUploads []struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		} `json:"remote_uploads"`
	}
	h.call(t, admin, http.MethodPost, "/backups", nil).Want(t, http.StatusCreated).Into(t, &made)
	if made.Status != "success" || len(made.RemoteUploads) != 1 || made.RemoteUploads[0].Status != "success" {
		t.Fatalf("%+v", made)
	}
	root := t.TempDir()
	secret := filepath.Join(root, "secret")
	if err := os.WriteFile(secret, []byte(server.SecretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "s3://" + server.Endpoint + "/" + server.Bucket
	login := []string{"--access-key", server.AccessKey, "--no-tls", "--secret-file"}
	output, err := ctl(t, root, "", append([]string{"offsite", "list", address}, append(login, secret)...)...)
	if err != nil || !strings.Contains(output, "gateway_") || strings.Contains(output, server.SecretKey) {
		t.Fatalf("%s %v", output, err)
	}
	to := filepath.Join(root, "archive")
	if output, err := ctl(t, root, server.SecretKey, append([]string{"offsite", "fetch", address, "latest", to}, append(login, "-")...)...); err != nil {
		t.Fatalf("%s %v", output, err)
	}
	info, err := os.Stat(to)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Fatalf("%+v %v", info, err)
	}
	// The fetched archive is a backup of this gateway.
	run := h.root(t)
	if output, err := run("", "backups", "add", to); err != nil {
		t.Errorf("%s %v", output, err)
	}
	if output, err := run(server.SecretKey, append([]string{"restore", "begin", "--from", address}, append(login, "-")...)...); err != nil || !strings.Contains(output, "The restore has started") {
		t.Errorf("%s %v", output, err)
	}
	if output, err := ctl(t, root, "wrong", append([]string{"offsite", "list", address}, append(login, "-")...)...); err == nil || err.Error() != "the secret key is wrong" {
		t.Errorf("%s %v", output, err)
	}
	if _, err := ctl(t, root, "wrong", append([]string{"restore", "begin", "--from", address}, append(login, "-")...)...); err == nil || err.Error() != "the secret key is wrong" {
		t.Errorf("%v", err)
	}
	if _, err := ctl(t, root, "", "restore", "begin"); err == nil || !strings.Contains(err.Error(), "say which backup") {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob("/var/tmp/gateway-restore-*"); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
