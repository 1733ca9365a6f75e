package radius_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	proto "layeh.com/radius"
	"layeh.com/radius/rfc2865"

	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/freeradius"
	"edge.internal/gateway/internal/kit/host/machine"
	"edge.internal/gateway/internal/kit/host/machine/units"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/kit/wire"
	"edge.internal/gateway/internal/radius"
)

func own(t testing.TB) *machine.Machine {
	t.Helper()
	m, err := machine.New(machine.Options{Units: units.None{}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// askFreeRADIUS has the real daemon check the files.
func askFreeRADIUS(t testing.TB, files []host.File) error {
	t.Helper()
	_, err := own(t).Run(t.Context(), freeradius.Check, host.Input{Staged: files})
	return err
}

func accept(t testing.TB, files []host.File) {
	t.Helper()
	if err := askFreeRADIUS(t, files); err != nil {
		t.Errorf("freeradius refuses it: %v", err)
	}
}

func TestRender(t *testing.T) {
	conftest.Golden[radius.Config]{Render: radius.Render, Accept: accept}.Check(t)
}

func TestCheckerRefuses(t *testing.T) {
	files := rendered(t, config())
	files[0].Content = bytes.Replace(files[0].Content, []byte("type = auth"), []byte("type = nonsense"), 1)
	if askFreeRADIUS(t, files) == nil {
		t.Fatal("freeradius takes anything")
	}
}

func config() radius.Config {
	return radius.Config{Settings: radius.Settings{Enabled: true, AuthPort: 1812, AcctPort: 1813}, Own: value.Must[radius.SharedSecret]("the gateway's own")}
}

func rendered(t testing.TB, c radius.Config) []host.File {
	t.Helper()
	files, err := radius.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A redacted file shows its structure and no secret, whatever the names are.
func TestRedaction(t *testing.T) {
	c := config()
	for i, name := range []string{"switch", "secret", "password", "a.secret", "Cleartext-Password"} {
		c.Clients = append(c.Clients, radius.ConfigClient{Name: value.Must[radius.Name](name), Address: value.Must[value.Prefix](fmt.Sprintf("10.0.0.%d", i)), Secret: value.Must[radius.SharedSecret]("canary = 'x' secret = canary")})
		c.Users = append(c.Users, radius.ConfigUser{Name: value.Must[radius.Name](name), Password: value.Must[radius.Password](`canary\' := canary`), Active: true})
	}
	c.Own = value.Must[radius.SharedSecret]("canary")
	for _, f := range rendered(t, c) {
		redacted := string(f.Content)
		if f.Redact != nil {
			redacted = string(f.Redact(f.Content))
		}
		if strings.Contains(redacted, "canary") {
			t.Errorf("%s tells:\n%s", f.Place, redacted)
		}
		if strings.Count(redacted, "\n") != strings.Count(string(f.Content), "\n") {
			t.Errorf("%s has other lines:\n%s", f.Place, redacted)
		}
		if regexp.MustCompile(`[0-9a-f]{16}`).MatchString(redacted) {
			t.Errorf("%s shows the probe:\n%s", f.Place, redacted)
		}
		if f.Place == freeradius.Users && !strings.Contains(redacted, "\nswitch Cleartext-Password := <redacted>\n") {
			t.Errorf("%s tells too little:\n%s", f.Place, redacted)
		}
	}
}

// words splits a file like FreeRADIUS: words between blanks, and texts in single quotes as one.
func words(backslash bool) func(file []byte) [][]string {
	return func(file []byte) [][]string {
		var list [][]string
		for line := range strings.Lines(string(file)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "#") {
				continue
			}
			var directive []string
			for line = strings.TrimLeft(line, " \t"); line != ""; line = strings.TrimLeft(line, " \t") {
				word := ""
				if line[0] == '\'' {
					i := 1
					for ; i < len(line) && line[i] != '\''; i++ {
						if line[i] == '\\' && i+1 < len(line) && (line[i+1] == '\'' || backslash) {
							i++
						}
						word += line[i : i+1]
					}
					line = line[min(i+1, len(line)):]
				} else {
					word, line, _ = strings.Cut(line, " ")
				}
				directive = append(directive, word)
			}
			list = append(list, directive)
		}
		return list
	}
}

// decode sets a value the way the API does.
func decode(into any, field string, v any) error {
	body, err := json.Marshal(map[string]any{field: v})
	if err != nil {
		return err // not valid UTF-8: no JSON can carry it
	}
	_, err = wire.Decode(body, into)
	return err
}

// place returns one file of a rendered configuration, without the line of the gateway's own probe, whose name depends on all others.
func place(c radius.Config, p host.Place) ([]byte, error) {
	files, err := radius.Render(c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(files, func(f host.File) bool { return f.Place == p })
	file, _, _ := bytes.Cut(files[i].Content, []byte("\n+"))
	return file, nil
}

func TestHostileClients(t *testing.T) {
	benign := radius.ConfigClient{Name: value.Must[radius.Name]("switch"), Address: value.Must[value.Prefix]("192.0.2.1/32"), Secret: value.Must[radius.SharedSecret]("shared")}
	with := func(x radius.ConfigClient) radius.Config {
		c := config()
		c.Clients = []radius.ConfigClient{x}
		return c
	}
	oracle := conftest.Oracle[radius.ConfigClient]{
		Place: freeradius.Clients,
		Parse: words(false), Render: func(x radius.ConfigClient) ([]byte, error) { return place(with(x), freeradius.Clients) },
		Daemon: func(t testing.TB, file []byte) {
			files := rendered(t, with(benign))
			files[1].Content = file
			accept(t, files)
		},
	}
	t.Run("name", func(t *testing.T) {
		o := oracle
		o.Benign = "access-point"
		o.Decode = func(text string) (radius.ConfigClient, string, error) {
			x, row := benign, radius.Client{Address: benign.Address}
			row.Secret.UnmarshalJSON([]byte(`"x"`))
			err := decode(&row, "name", text)
			x.Name = row.Name
			return x, row.Name.String(), err
		}
		o.Check(t)
	})
	t.Run("address", func(t *testing.T) {
		o := oracle
		o.Benign = "198.51.100.0/24"
		o.Decode = func(text string) (radius.ConfigClient, string, error) {
			x, row := benign, radius.Client{Name: benign.Name}
			row.Secret.UnmarshalJSON([]byte(`"x"`))
			err := decode(&row, "address", text)
			x.Address = row.Address
			if err == nil && row.Address.Netip().Addr().Is6() {
				err = fmt.Errorf("another directive")
			}
			return x, row.Address.String(), err
		}
		o.Check(t)
	})
	t.Run("secret", func(t *testing.T) {
		o := oracle
		o.Benign = "correct horse"
		o.Decode = func(text string) (radius.ConfigClient, string, error) {
			x, row := benign, radius.Client{Name: benign.Name, Address: benign.Address}
			if err := decode(&row, "secret", text); err != nil {
				return x, "", err
			}
			fresh, _ := row.Secret.Fresh()
			var err error
			x.Secret, err = value.Parse[radius.SharedSecret](fresh)
			return x, fresh, err
		}
		o.Check(t)
	})
}

func TestHostileUsers(t *testing.T) {
	benign := radius.ConfigUser{Name: value.Must[radius.Name]("ada"), Password: value.Must[radius.Password]("word"), Active: true}
	with := func(x radius.ConfigUser) radius.Config {
		c := config()
		c.Users = []radius.ConfigUser{x}
		return c
	}
	oracle := conftest.Oracle[radius.ConfigUser]{
		Place: freeradius.Users,
		Parse: words(true), Render: func(x radius.ConfigUser) ([]byte, error) { return place(with(x), freeradius.Users) },
		Daemon: func(t testing.TB, file []byte) {
			files := rendered(t, with(benign))
			files[2].Content = append(file, '\n')
			accept(t, files)
		},
	}
	t.Run("name", func(t *testing.T) {
		o := oracle
		o.Benign = "bob"
		o.Decode = func(text string) (radius.ConfigUser, string, error) {
			x, row := benign, radius.User{}
			row.Password.UnmarshalJSON([]byte(`"x"`))
			err := decode(&row, "name", text)
			x.Name = row.Name
			return x, row.Name.String(), err
		}
		o.Check(t)
	})
	t.Run("password", func(t *testing.T) {
		o := oracle
		o.Benign = "correct horse"
		o.Decode = func(text string) (radius.ConfigUser, string, error) {
			x, row := benign, radius.User{Name: benign.Name}
			if err := decode(&row, "password", text); err != nil {
				return x, "", err
			}
			fresh, _ := row.Password.Fresh()
			var err error
			x.Password, err = value.Parse[radius.Password](fresh)
			return x, fresh, err
		}
		o.Check(t)
	})
}

// server is a real FreeRADIUS with files in a folder of the test.
type server struct {
	*machine.Machine
	radius.Config
	dir string
}

// serve runs FreeRADIUS with a configuration until the test ends.
func serve(t *testing.T, c radius.Config) *server {
	t.Helper()
	dir := t.TempDir()
	s := &server{Machine: own(t), Config: c, dir: dir}
	for _, port := range []*int{&s.Settings.AuthPort, &s.Settings.AcctPort} {
		l, err := net.ListenPacket("udp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		*port = l.LocalAddr().(*net.UDPAddr).Port
	}
	for _, f := range rendered(t, s.Config) {
		content := bytes.ReplaceAll(bytes.ReplaceAll(f.Content, []byte("= /var/log/freeradius"), []byte("= "+dir)), []byte("= /run/freeradius"), []byte("= "+dir))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(f.Place.Path())), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command("/usr/sbin/freeradius", "-f", "-P", "-d", s.dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	waittest.UntilNil(t, "freeradius serves", func() error { _, err := os.Stat(filepath.Join(s.dir, "freeradius.pid")); return err })
}

func (s *server) login(t *testing.T, user, password string, chap bool) freeradius.Answer {
	t.Helper()
	a, err := s.RadiusLogin(t.Context(), freeradius.Login{Port: s.Settings.AuthPort, Secret: s.Own.String(), User: user, Password: password, CHAP: chap})
	if err != nil {
		t.Errorf("%q with %q: %v", user, password, err)
	}
	return a
}

// Every password that the API accepts works by PAP and CHAP, and no other password does.
func TestEveryPasswordWorks(t *testing.T) {
	passwords := []string{
		`%{User-Password}`, `%{User-Name}`, `${libdir}`, `$ENV{PATH}`, `$INCLUDE /etc/passwd`, `\x0a`, `\n`, `\\`, `\'`, `a\`, `'`, `''`, `' , Auth-Type := Accept`, `"quoted"`,
		"`id`", `{clear}x`, `{md5}x`, `0x6162`, `# x`, ` leading`, `trailing `, ` `, `пароль`, `日本語`, "\u00a0",
		strings.Repeat("x", 128), strings.Repeat(`\`, 128), strings.Repeat(`'`, 128), strings.Repeat("é", 64),
	}
	for c := '!'; c < 0x7f; c++ {
		passwords = append(passwords, string(c), "a"+string(c)+"b", string(c)+string(c))
	}
	c := config()
	for i, p := range passwords {
		c.Users = append(c.Users, radius.ConfigUser{Name: value.Must[radius.Name](fmt.Sprintf("u%d", i)), Password: value.Must[radius.Password](p), Active: true})
	}
	s := serve(t, c)
	s.start(t)
	for i, p := range passwords {
		for _, chap := range []bool{false, true} {
			if a := s.login(t, fmt.Sprintf("u%d", i), p, chap); !a.Accepted {
				t.Errorf("%q is refused (CHAP: %t)", p, chap)
			}
		}
	}
	var waiting sync.WaitGroup // a refusal takes a second
	for i, p := range passwords[:25] {
		waiting.Go(func() {
			if s.login(t, fmt.Sprintf("u%d", i), "another", i%2 == 0).Accepted {
				t.Errorf("any password does for %q", p)
			}
		})
	}
	waiting.Wait()
}

// Every secret that the API accepts works.
func TestEverySecretWorks(t *testing.T) {
	var printable strings.Builder
	for c := ' '; c < 0x7f; c++ {
		if c != '\\' {
			printable.WriteRune(c)
		}
	}
	for i, text := range []string{printable.String(), `%{User-Name}`, `${libdir}`, `$ENV{PATH}`, `'`, `a'b`, `''`, `"`, `# x`, `0x6162`, ` `, ` a `, `{}`, `секрет`, strings.Repeat("x", 128), strings.Repeat(`'`, 128)} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { // the name is part of the folder's
			c := config()
			c.Own = value.Must[radius.SharedSecret](text)
			c.Users = []radius.ConfigUser{{Name: value.Must[radius.Name]("ada"), Password: value.Must[radius.Password]("word"), Active: true}}
			s := serve(t, c)
			s.start(t)
			if !s.login(t, "ada", "word", false).Accepted {
				t.Errorf("%q does not work", text)
			}
		})
	}
}

func name(text string) radius.Name { return value.Must[radius.Name](text) }

func prefix(text string) value.Prefix { return value.Must[value.Prefix](text) }

// users returns users from names, passwords and active flags.
func users(list ...any) (made []radius.ConfigUser) {
	for x := range slices.Chunk(list, 3) {
		made = append(made, radius.ConfigUser{Name: name(x[0].(string)), Password: value.Must[radius.Password](x[1].(string)), Active: x[2].(bool)})
	}
	return made
}

// read returns a file of the server's folder.
func (s *server) read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// probe returns the name and the password of the probe user.
func (s *server) probe(t *testing.T) (name, password string) {
	t.Helper()
	m := regexp.MustCompile(`(?m)^(\+\S+) Cleartext-Password := (\S+)$`).FindStringSubmatch(s.read(t, "gateway-users"))
	if m == nil {
		t.Fatal("there is no probe")
	}
	return m[1], m[2]
}

// radclient sends a request from a loopback address to the server there, and returns its output.
func (s *server) radclient(t *testing.T, from, request string) string {
	t.Helper()
	server, source := "127.0.0.1", "Packet-Src-IP-Address"
	if strings.Contains(from, ":") {
		server, source = "::1", "Packet-Src-IPv6-Address"
	}
	cmd := exec.Command("/usr/bin/radclient", "-x", "-r", "1", "-t", "10", net.JoinHostPort(server, strconv.Itoa(s.Settings.AuthPort)), "auth", s.Own.String())
	cmd.Stdin = strings.NewReader(request + ", " + source + " = " + from)
	out, _ := cmd.CombinedOutput() // it treats a refusal as an error
	return string(out)
}

// unsigned sends a request from a loopback address without a Message-Authenticator, which radclient always adds since 3.2.7. It returns
// the code of the answer; 0 if there is none.
func (s *server) unsigned(t *testing.T, from, user string, method func(*proto.Packet) error) proto.Code {
	t.Helper()
	p := proto.New(proto.CodeAccessRequest, []byte(s.Own.String()))
	if err := errors.Join(rfc2865.UserName_SetString(p, user), method(p)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client := proto.Client{Dialer: net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
	answer, err := client.Exchange(ctx, p, net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Settings.AuthPort)))
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		t.Fatal(err)
	}
	return answer.Code
}
