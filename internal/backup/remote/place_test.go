package remote_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"edge.internal/gateway/internal/backup/remote"
	"edge.internal/gateway/test/offsite"
)

// A machine without a gateway gets an archive from a target by its address.
func TestArchiveForANewMachine(t *testing.T) {
	t.Parallel()
	server, secure, sshd := offsite.NewS3(t, false), offsite.NewS3(t, true), offsite.NewSSHD(t)
	h := newHouse(t)
	in := server.Settings()
	in["path_prefix"] = "some/where"
	rows := []row{h.add(t, "s3", in), h.add(t, "s3", secure.Settings()), h.add(t, "sftp", sshd.Settings())}
	content := []byte("an archive")
	h.upload(t, newArchive(t, content), "20260102T030405Z.tar")
	key, err := base64.StdEncoding.DecodeString(sshd.Key)
	if err != nil {
		t.Fatal(err)
	}
	logins := []remote.Login{
		{AccessKey: server.AccessKey, Secret: server.SecretKey, Plain: true},
		{AccessKey: secure.AccessKey, Secret: secure.SecretKey, CA: secure.CA},
		{PrivateKey: string(key), HostKey: sshd.Fingerprint},
	}
	for i, login := range logins {
		// The address is the one that the targets display.
		place, err := remote.At(rows[i].TargetURL, login)
		if err != nil {
			t.Fatal(err)
		}
		list, err := place.List(t.Context())
		if err != nil || len(list) != 1 || list[0].Name != "20260102T030405Z.tar" || list[0].Host != "gateway" {
			t.Fatalf("%s: %+v %v", rows[i].TargetURL, list, err)
		}
		var back bytes.Buffer
		if n, err := place.Fetch(t.Context(), list[0].File, &back); err != nil || n != int64(len(content)) || !bytes.Equal(back.Bytes(), content) {
			t.Errorf("%s: %d bytes, %v", rows[i].TargetURL, n, err)
		}
		if _, err := place.Fetch(t.Context(), "../../etc/passwd", &back); err == nil {
			t.Error("any file is fetched")
		}
	}
	// An SFTP server must be known: whoever can impersonate it decides what this machine becomes.
	sshd.ChangeKey()
	for _, known := range []string{"", logins[2].HostKey} {
		place, err := remote.At(rows[2].TargetURL, remote.Login{PrivateKey: string(key), HostKey: known})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := place.List(t.Context()); err == nil || !strings.Contains(err.Error(), sshd.Fingerprint) || strings.Contains(sshd.Log(), "publickey") {
			t.Errorf("%v\n%s", err, sshd.Log())
		}
	}
	for _, address := range []string{
		"", "backup.tar", "https://s3.example.net/b", "s3://", "s3:///bucket", "s3://s3.example.net", "s3://s3.example.net/../b", "sftp://h/dir", "sftp://u@h:99999/dir", "sftp://u@h/a/../../b\n",
		"s3://s3.example.net/backups?x=1", fmt.Sprintf("sftp://u@%s/dir", strings.Repeat("x", 300)),
	} {
		if place, err := remote.At(address, remote.Login{AccessKey: "a", Secret: "s", HostKey: "nonsense"}); err == nil {
			t.Errorf("%q is %+v", address, place)
		}
	}
}
