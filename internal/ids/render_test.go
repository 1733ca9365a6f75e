package ids_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/ids"
	"edge.internal/gateway/internal/kit/conftest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/crowdsec"
	"edge.internal/gateway/internal/kit/value"
	"edge.internal/gateway/internal/kit/wire"
)

// installed puts the files into a copy of the daemon's folders, and returns the folder and the path of its configuration.
func installed(t testing.TB, files []host.File) (root, config string) {
	t.Helper()
	root = t.TempDir()
	for from, to := range map[string]string{"/etc/crowdsec": "etc", "/var/lib/crowdsec/data": "data"} {
		if out, err := exec.Command("cp", "-a", from, filepath.Join(root, to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	moved := strings.NewReplacer("/etc/crowdsec/", root+"/etc/", "/var/lib/crowdsec/data/", root+"/data/", "/var/log/", root+"/log/")
	for _, log := range []string{crowdsec.WAFLog, crowdsec.DropLog} {
		if err := os.MkdirAll(filepath.Dir(moved.Replace(log)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		path := moved.Replace(f.Place.Path())
		content := f.Content
		if f.Place == crowdsec.Config || f.Place == crowdsec.Sources {
			content = []byte(moved.Replace(string(content)))
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root, moved.Replace(crowdsec.Config.Path())
}

// crowdsec has the daemon itself check the files.
func askCrowdSec(t testing.TB, files []host.File) (string, error) {
	t.Helper()
	_, config := installed(t, files)
	out, err := exec.Command("crowdsec", "-t", "-c", config).CombinedOutput()
	return string(out), err
}

// In a request that the proxy logs, CrowdSec takes the visitor for the source, whom the web application firewall has found behind a
// trusted proxy, and keeps only the path. The query is for scenarios.
func TestProxyLogsAreUnderstood(t *testing.T) {
	files, err := ids.Render(config())
	if err != nil {
		t.Fatal(err)
	}
	root, config := installed(t, files)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"code":200,"expire":"2099-01-01T00:00:00Z","token":"x"}`))
	}))
	defer api.Close()
	log, dump := filepath.Join(root, "requests.log"), filepath.Join(root, "dump")
	var lines strings.Builder
	for _, request := range []string{
		`"GET /a/b?q=hunter2#22x HTTP/1.1" 6f0d d1 - 198.51.100.9`, `"GET /c HTTP/1.1" 6f0d d1 busy -`, `"GET https://www.example.net/d? HTTP/2.0" 6f0d d1 - 2001:db8::9`, `"<BADREQ>" - - - -`,
	} {
		lines.WriteString("Nov 17 05:00:00 gw haproxy[1]: 192.0.2.7:40000 [17/Nov/2026:05:00:00.000] gateway_https~ b/s 0/0/0/1/1 404 100 - - ---- 1/1/0/0/0 0/0 " + request + "\n")
	}
	for path, content := range map[string]string{
		log: lines.String(), filepath.Join(root, "etc", "local_api_credentials.yaml"): "url: " + api.URL + "/\nlogin: x\npassword: x\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dump, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("crowdsec", "-c", config, "-no-api", "-type", "syslog", "-dsn", "file://"+log, "-dump-data", dump).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	parsed, err := os.ReadFile(filepath.Join(dump, "parser-dump.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// Each line after the gateway's parser has processed it.
	_, own, _ := strings.Cut(string(parsed), "\n  gateway/proxy-logs:\n")
	var got []string
	for _, event := range strings.Split(own, "\n  - evt:")[:4] {
		_, meta, _ := strings.Cut(event, "\n      Meta:\n")
		meta, _, _ = strings.Cut(meta, "\n    success:")
		fields := map[string]string{}
		for line := range strings.Lines(meta) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			fields[key] = value
		}
		if strings.Contains(meta, "hunter2") {
			t.Errorf("the query is kept: %s", meta)
		}
		got = append(got, fields["source_ip"]+" "+fields["http_path"])
	}
	if want := []string{"198.51.100.9 /a/b", "192.0.2.7 /c", "2001:db8::9 /d", "192.0.2.7 "}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q\n%s", got, want, own)
	}
	if !strings.Contains(own, "http_args: q=hunter2#22x") {
		t.Error("scenarios do not see the query")
	}
}

func TestRender(t *testing.T) {
	conftest.Golden[ids.Config]{Render: ids.Render, Accept: func(t testing.TB, files []host.File) {
		out, err := askCrowdSec(t, files)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// It continues without what it cannot read, and logs that.
		for _, name := range []string{"gateway-logs.yaml", "gateway-allow-list.yaml", "gateway-attacks.yaml"} {
			if !strings.Contains(out, name) {
				t.Errorf("nothing is read from %s:\n%s", name, out)
			}
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "gateway") && (strings.Contains(line, "level=error") || strings.Contains(line, "level=fatal")) {
				t.Error(line)
			}
		}
	}}.Check(t)
}

// The daemon's check really checks.
func TestCheckerRefuses(t *testing.T) {
	files, err := ids.Render(config())
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if files[i].Place == crowdsec.Profiles {
			files[i].Content = []byte(`{"name": "x", "filters": ["no expression ("], "decisions": [{"type": "ban", "duration": "4h"}]}`)
		}
	}
	if out, err := askCrowdSec(t, files); err == nil {
		t.Fatalf("crowdsec takes anything: %s", out)
	}
}

func TestRenderBouncer(t *testing.T) {
	c := ids.BouncerConfig{Settings: config().Settings, Key: value.Must[ids.Key]("0123456789abcdef0123456789abcdef")}
	files, err := ids.RenderBouncer(c)
	if err != nil || len(files) != 1 {
		t.Fatal(len(files), err)
	}
	path := filepath.Join(t.TempDir(), "bouncer.yaml")
	if err := os.WriteFile(path, files[0].Content, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("crowdsec-firewall-bouncer", "-t", "-c", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	redacted := files[0].Redact(files[0].Content)
	if bytes.Contains(redacted, []byte(c.Key.String())) || !bytes.Contains(redacted, []byte(`"api_key": "<redacted>",`)) {
		t.Fatalf("the key is shown:\n%s", redacted)
	}
}

// config has every source and one entry of the allow-list.
func config() ids.Config {
	c := ids.Config{Always: []value.Prefix{value.Must[value.Prefix]("127.0.0.0/8")}}
	if _, err := wire.Decode([]byte(`{"enabled":true,"blocking":true,"ban_duration":"4h","sources":{"ssh":true,"haproxy":true,"packet_filter":true,"waf":true},
		"allow_list":[{"cidr":"192.0.2.0/24","note":"the office"}]}`), &c.Settings); err != nil {
		panic(err)
	}
	return c
}

// documents returns every path in the documents of a file, with its value if it has one.
func documents(file []byte) [][]string {
	var list [][]string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			list = append(list, []string{path + "{"})
			for key, x := range v {
				walk(path+"/"+key, x)
			}
		case []any:
			list = append(list, []string{path + "["})
			for i, x := range v {
				walk(fmt.Sprintf("%s/%d", path, i), x)
			}
		default:
			list = append(list, []string{path, fmt.Sprint(v)})
		}
	}
	_, file, _ = bytes.Cut(file, []byte("\n")) // the comment
	for i, document := range bytes.Split(file, []byte("\n---\n")) {
		var root any
		if err := json.Unmarshal(document, &root); err != nil {
			return [][]string{{"no JSON", err.Error()}}
		}
		walk(fmt.Sprint(i), root)
	}
	slices.SortFunc(list, slices.Compare)
	return list
}

// rendered is one file of a configuration.
func rendered(c ids.Config, p host.Place) ([]byte, error) {
	files, err := ids.Render(c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(files, func(f host.File) bool { return f.Place == p })
	return files[i].Content, nil
}

func TestHostile(t *testing.T) {
	for _, x := range []struct {
		name, benign string
		place        host.Place
		body         func(text string) any
		canonical    func(c ids.Config) string
	}{
		{"ban_duration", "90m", crowdsec.Profiles, func(text string) any { return map[string]any{"ban_duration": text} }, func(c ids.Config) string { return c.Settings.BanDuration.String() }},
		{"cidr", "198.51.100.0/24", crowdsec.AllowList, func(text string) any { return map[string]any{"allow_list": []any{map[string]any{"cidr": text}}} }, func(c ids.Config) string { return c.Settings.AllowList[0].CIDR.String() }},
	} {
		t.Run(x.name, func(t *testing.T) {
			conftest.Oracle[ids.Config]{
				Place: x.place, Benign: x.benign, Parse: documents,
				Decode: func(text string) (ids.Config, string, error) {
					c := config()
					body, err := json.Marshal(x.body(text))
					if err != nil {
						return c, "", err
					}
					if _, err := wire.Decode(body, &c.Settings); err != nil {
						return c, "", err
					}
					if err := c.Settings.Validate(); err != nil {
						return c, "", err
					}
					if x.canonical(c) == "" {
						return c, "", errors.New("absent")
					}
					return c, x.canonical(c), nil
				},
				Render: func(c ids.Config) ([]byte, error) { return rendered(c, x.place) },
			}.Check(t)
		})
	}
}

// An operator's notes are in no file.
func TestNotesAreInNoFile(t *testing.T) {
	plain, err := ids.Render(config())
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, text := range append(conftest.Corpus, "\"]}\n---\n{\"name\": \"x\"}", "*anchor", "&a b", "!!python/object x", "- x: y") {
		body, err := json.Marshal(map[string]any{"allow_list": []any{map[string]any{"cidr": "192.0.2.0/24", "note": text}}})
		if err != nil {
			t.Fatal(err)
		}
		c := config()
		if _, err := wire.Decode(body, &c.Settings); err != nil {
			continue
		}
		taken++
		files, err := ids.Render(c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			if !bytes.Equal(files[i].Content, plain[i].Content) {
				t.Errorf("the note %q changed %s", text, files[i].Place)
			}
		}
	}
	if taken < 20 {
		t.Fatalf("only %d notes were taken", taken)
	}
}
