package remote

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/crypto/ssh"

	"edge.internal/gateway/internal/kit/check"
	"edge.internal/gateway/internal/kit/secret"
	"edge.internal/gateway/internal/kit/value"
)

// Settings holds the settings of the target's kind; those of the other kind are hidden.
type Settings struct {
	S3
	SFTP

	// kind selects the settings to marshal; empty selects all.
	kind string
}

// S3 is a bucket of an object store.
type S3 struct {
	Endpoint      string        `json:"endpoint" required:"false" doc:"Host name or address of the service, with a port if it is not the usual one: s3.eu-central-1.amazonaws.com or 192.0.2.7:9000."`
	Region        string        `json:"region" required:"false" doc:"Region of the bucket. Most services other than Amazon's take us-east-1."`
	Bucket        string        `json:"bucket" required:"false" doc:"Name of the bucket. It must exist."`
	AccessKey     string        `json:"access_key" required:"false" doc:"Id of the access key."`
	SecretKey     secret.Masked `json:"secret_key" required:"false" doc:"The key itself. It is shown as ***SET***; sending that keeps it."`
	PathPrefix    string        `json:"path_prefix" required:"false" doc:"Folder in the bucket; empty for none."`
	HTTPS         bool          `json:"https" required:"false" doc:"Use TLS; true by default. Without it anyone on the path can read the archives."`
	CACertificate string        `json:"ca_certificate" required:"false" doc:"Certificate of the service's own certificate authority in PEM; empty for a public one."`
}

// SFTP is a folder on an SSH server.
type SFTP struct {
	Host               value.Host    `json:"host" required:"false" doc:"Host name or address of the server."`
	Port               int           `json:"port" required:"false" doc:"Its port."`
	Username           string        `json:"username" required:"false" doc:"User to log in as."`
	Password           secret.Masked `json:"password" required:"false" doc:"Password; not needed with a key. It is shown as ***SET***; sending that keeps it."`
	PrivateKey         secret.Masked `json:"private_key" required:"false" doc:"Private key without a passphrase: the file that OpenSSH writes, plain or in base64. It is shown as ***SET***; sending that keeps it."`
	RemoteDir          string        `json:"remote_dir" required:"false" doc:"Folder on the server; empty for the home folder of the user. It is created if it does not exist."`
	HostKeyFingerprint string        `json:"host_key_fingerprint" required:"false" doc:"Fingerprint of the server's key, SHA256:…. Empty means trust on first use: the first successful connection stores it. A server with a different key is refused; to accept a new key, clear this."`
}

func defaults() Settings {
	return Settings{S3: S3{Region: "us-east-1", HTTPS: true}, SFTP: SFTP{Port: 22}}
}

// secrets returns the secrets by the names of their fields.
func (s *Settings) secrets() map[string]*secret.Masked {
	return map[string]*secret.Masked{"secret_key": &s.SecretKey, "password": &s.Password, "private_key": &s.PrivateKey}
}

// MarshalJSONTo writes the settings of the kind, or all of them for the database.
func (s Settings) MarshalJSONTo(e *jsontext.Encoder) error {
	switch s.kind {
	case kindS3:
		return json.MarshalEncode(e, s.S3)
	case kindSFTP:
		return json.MarshalEncode(e, s.SFTP)
	}
	return json.MarshalEncode(e, struct {
		S3
		SFTP
	}{s.S3, s.SFTP})
}

// url returns the address of the target.
func (s *Settings) url(kind string) string {
	if kind == kindS3 {
		return (&url.URL{Scheme: "s3", Host: s.Endpoint, Path: path.Join("/", s.Bucket, s.PathPrefix)}).String()
	}
	u := url.URL{Scheme: "sftp", Host: s.Host.String(), Path: "/"}
	if strings.Contains(u.Host, ":") {
		u.Host = "[" + u.Host + "]"
	}
	if s.Port != 22 {
		u.Host += ":" + strconv.Itoa(s.Port)
	}
	if s.Username != "" {
		u.User = url.User(s.Username)
	}
	if s.RemoteDir != "" {
		// The usual notation: a folder below the user's home follows a ~.
		u.Path = s.RemoteDir
		if !path.IsAbs(u.Path) {
			u.Path = "/~/" + u.Path
		}
	}
	return u.String()
}

// destination identifies the server that receives the secrets.
func (s *Settings) destination(kind string) string {
	if kind == kindS3 {
		return s.Endpoint
	}
	return net.JoinHostPort(s.Host.String(), strconv.Itoa(s.Port))
}

var (
	bucketForm      = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionForm      = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	wordForm        = regexp.MustCompile(`^[!-~]{1,256}$`)
	userForm        = regexp.MustCompile(`^[A-Za-z0-9._@\\+-]{1,128}$`)
	folderForm      = regexp.MustCompile(`^[A-Za-z0-9 ._@+=,~/-]*$`)
	fingerprintForm = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)
)

const (
	maxFolder = 512
	// maxPEM is enough for a few certificates or one key.
	maxPEM = 32 << 10
)

// complain adds the errors in the settings of a kind.
func (s *Settings) complain(c *check.List, kind string) {
	at := func(field string) string { return "settings." + field }
	alone := func(given, usual any, owner string) {
		for i := range reflect.TypeOf(given).NumField() {
			same := reflect.DeepEqual(reflect.ValueOf(given).Field(i).Interface(), reflect.ValueOf(usual).Field(i).Interface())
			c.That(same, at(reflect.TypeOf(given).Field(i).Tag.Get("json")), "applies to %s only", owner)
		}
	}
	switch kind {
	case kindS3:
		alone(s.SFTP, defaults().SFTP, kindSFTP)
		s.S3.complain(c, at)
	case kindSFTP:
		alone(s.S3, defaults().S3, kindS3)
		s.SFTP.complain(c, at)
	}
}

func (s *S3) complain(c *check.List, at func(string) string) {
	c.That(s.Endpoint != "", at("endpoint"), "is required")
	c.That(s.Endpoint == "" || isEndpoint(s.Endpoint), at("endpoint"), "must be a host name or an address, with a port if needed, but without https:// or a path")
	c.That(regionForm.MatchString(s.Region), at("region"), "must be the name of a region, for example us-east-1")
	c.That(s.Bucket != "", at("bucket"), "is required")
	c.That(s.Bucket == "" || bucketForm.MatchString(s.Bucket) && !strings.Contains(s.Bucket, ".."), at("bucket"), "must be the name of a bucket: 3 to 63 lower-case letters, digits, dots and hyphens")
	c.That(s.AccessKey != "", at("access_key"), "is required")
	c.That(s.AccessKey == "" || wordForm.MatchString(s.AccessKey), at("access_key"), "must be one word")
	c.That(s.SecretKey.Set(), at("secret_key"), "is required")
	if plain, fresh := s.SecretKey.Fresh(); fresh {
		c.That(wordForm.MatchString(plain), at("secret_key"), "must be one word")
	}
	complainFolder(c, at("path_prefix"), s.PathPrefix)
	c.That(!strings.HasPrefix(s.PathPrefix, "/"), at("path_prefix"), "must not start with /")
	c.That(len(s.CACertificate) <= maxPEM, at("ca_certificate"), "must have at most %d bytes", maxPEM)
	c.That(s.CACertificate == "" || x509.NewCertPool().AppendCertsFromPEM([]byte(s.CACertificate)), at("ca_certificate"), "must be a PEM certificate, which starts with -----BEGIN CERTIFICATE-----")
	c.That(s.CACertificate == "" || s.HTTPS, at("ca_certificate"), "applies only with TLS")
}

func isEndpoint(text string) bool {
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
		host = h
	}
	_, err := value.Parse[value.Host](strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

func (s *SFTP) complain(c *check.List, at func(string) string) {
	c.That(!s.Host.IsZero(), at("host"), "is required")
	c.That(s.Port >= 1 && s.Port <= 65535, at("port"), "must be between 1 and 65535")
	c.That(s.Username != "", at("username"), "is required")
	c.That(s.Username == "" || userForm.MatchString(s.Username), at("username"), "must be the name of a user")
	c.That(s.Password.Set() || s.PrivateKey.Set(), at("password"), "is required unless there is a private key")
	if plain, fresh := s.Password.Fresh(); fresh {
		c.That(len(plain) <= 1024 && utf8.ValidString(plain) && !strings.ContainsAny(plain, "\x00\r\n"), at("password"), "must be one line of at most 1024 bytes")
	}
	if plain, fresh := s.PrivateKey.Fresh(); fresh {
		if _, err := parseKey(plain); err != nil {
			c.Add(at("private_key"), "%v", err)
		}
	}
	complainFolder(c, at("remote_dir"), s.RemoteDir)
	c.That(s.HostKeyFingerprint == "" || fingerprintForm.MatchString(s.HostKeyFingerprint), at("host_key_fingerprint"), "must be SHA256: and 43 characters, as ssh-keygen -l prints it, or empty")
}

// complainFolder refuses paths that leave the folder, or have a meaning to a shell or a server.
func complainFolder(c *check.List, field, folder string) {
	c.That(len(folder) <= maxFolder, field, "must have at most %d bytes", maxFolder)
	c.That(folderForm.MatchString(folder), field, "must contain only letters, digits, spaces, slashes and ._@+=,~-")
	trimmed := strings.Trim(folder, "/")
	for part := range strings.SplitSeq(trimmed, "/") {
		c.That(trimmed == "" || part != "" && part != "." && part != "..", field, "must not contain empty parts, . or ..")
	}
}

// parseKey reads a private key as an OpenSSH file, plain or in base64.
func parseKey(text string) (ssh.Signer, error) {
	form := errors.New("must be a private key as ssh-keygen writes it, plain or in base64")
	if len(text) > maxPEM {
		return nil, form
	}
	pem := []byte(text)
	if !strings.Contains(text, "-----BEGIN") {
		var err error
		if pem, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return nil, form
		}
	}
	key, err := ssh.ParsePrivateKey(pem)
	if _, locked := errors.AsType[*ssh.PassphraseMissingError](err); locked {
		return nil, errors.New("must not be protected by a passphrase, because no one can enter it when a backup is sent")
	}
	if err != nil {
		return nil, form
	}
	return key, nil
}
