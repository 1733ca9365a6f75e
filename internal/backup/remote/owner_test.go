package remote_test

import (
	"bytes"
	"maps"
	"net/http"
	"strings"
	"testing"

	"edge.internal/gateway/internal/backup"
	"edge.internal/gateway/test/offsite"
)

// A machine that is not set up yet gets its archive from a target entered for this one time.
func TestOwnerFetches(t *testing.T) {
	t.Parallel()
	server, sshd := offsite.NewS3(t, false), offsite.NewSSHD(t)
	h := newHouse(t)
	h.add(t, "s3", server.Settings())
	h.add(t, "sftp", sshd.Settings())
	content := []byte("an archive")
	h.upload(t, newArchive(t, content), "20260102T030405Z.tar")
	ask := func(verb, kind string, settings map[string]any, more ...any) map[string]any {
		body := map[string]any{"kind": kind, "settings": settings, "allow_internal": true}
		for i := 0; i < len(more); i += 2 {
			body[more[i].(string)] = more[i+1]
		}
		return map[string]any{"verb": verb, "body": body}
	}
	post := func(x map[string]any) (status int, out struct {
		listing
		HostKey string `json:"host_key"`
		Size    int64
	}, answer string) {
		t.Helper()
		a := h.Do(t, "", http.MethodPost, "/setup/restore/"+x["verb"].(string), x["body"])
		if a.Status < 300 {
			a.Into(t, &out)
		}
		return a.Status, out, string(a.Body)
	}
	known := maps.Clone(sshd.Settings())
	known["host_key_fingerprint"] = sshd.Fingerprint
	for kind, settings := range map[string]map[string]any{"s3": server.Settings(), "sftp": known} {
		status, list, answer := post(ask("archives", kind, settings))
		if status != 200 || len(list.Archives) != 1 || list.Archives[0].Host != "gateway" {
			t.Fatalf("%s: %s", kind, answer)
		}
		h.adopted = nil
		status, got, answer := post(ask("fetch", kind, settings, "file", list.Archives[0].File))
		if status != 201 || got.Size != int64(len(content)) || !bytes.Equal(h.adopted, content) {
			t.Errorf("%s: %d %s", kind, status, answer)
		}
	}
	if h.Audited(t, "setup.restore.fetch") != 2 {
		t.Error("the audit log does not know")
	}
	// An SFTP server whose key is unknown does not learn who asks.
	stranger := maps.Clone(sshd.Settings())
	delete(stranger, "host_key_fingerprint")
	logins := strings.Count(sshd.Log(), "Accepted")
	if status, list, answer := post(ask("archives", "sftp", stranger)); status != 200 || list.HostKey != sshd.Fingerprint || len(list.Archives) != 0 {
		t.Errorf("%d %s", status, answer)
	}
	if status, _, answer := post(ask("fetch", "sftp", stranger, "file", "gateway_node_000000000000_1.tar")); status != 400 || !strings.Contains(answer, sshd.Fingerprint) {
		t.Errorf("%d %s", status, answer)
	}
	if strings.Count(sshd.Log(), "Accepted") != logins {
		t.Error("a server that is not known was logged in to")
	}
	for name, x := range map[string]struct {
		ask  map[string]any
		says string
	}{
		"no settings":     {ask("archives", "s3", map[string]any{}), "settings.endpoint"},
		"another kind":    {ask("archives", "ftp", server.Settings()), "kind"},
		"any file":        {ask("fetch", "s3", server.Settings(), "file", "../../etc/passwd"), "file"},
		"fields of sftp":  {ask("archives", "s3", known), "settings.host"},
		"not that secret": {ask("archives", "s3", map[string]any{"endpoint": "s3.example.net", "bucket": "b", "access_key": "k", "secret_key": "***SET***"}), "secret_key"},
	} {
		if status, _, answer := post(x.ask); status != 400 || !strings.Contains(answer, x.says) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	// This machine itself is refused, unless allowed.
	if _, list, answer := post(ask("archives", "s3", server.Settings(), "allow_internal", false)); list.Error == "" {
		t.Error(answer)
	}
}

// After repeated failures the owner must wait: a machine that is not set up yet must not serve as a scanner.
func TestOwnerTriesTooOften(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	body := map[string]any{"kind": "s3", "settings": map[string]any{"endpoint": "127.0.0.1:9", "bucket": "backups", "access_key": "k", "secret_key": "s"}}
	for range backup.Tries.Source {
		h.Do(t, "", http.MethodPost, "/setup/restore/archives", body).Want(t, 200)
	}
	h.Do(t, "", http.MethodPost, "/setup/restore/archives", body).Want(t, 429)
}
