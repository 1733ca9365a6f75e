package appliance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/keepalived"
	"edge.internal/gateway/internal/kit/host/daemon/squid"
	"edge.internal/gateway/internal/kit/host/helper/guard/fuzz"
	"edge.internal/gateway/internal/kit/host/machine/command"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/test/appliance/attacker/wish"
)

// An attacker who controls the API submits mutated files to the installed helper, while strace watches the helper, the checkers and the daemons: what
// is not refused only does a daemon's job. GATEWAY_MUTATIONS is the number of files; for each 250 of them, every daemon is
// started with one more. HostileAPI tests that each hostile text is refused.
func hostileFiles(t *testing.T, g *appliance) {
	changes := longtest.Number(t, "GATEWAY_MUTATIONS", 500, 500)
	seed := longtest.Seed(t, uint64(time.Now().UnixNano()))
	g.bringAttacker(t)
	g.bringStrace(t)
	g.sh(t, "systemctl stop gateway-api gateway-scheduler")
	own := g.ownSubjects(t)
	golden, err := fuzz.Subjects("../../internal")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Checkers", func(t *testing.T) {
		g.checkersDoNothing(t, wish.Wish{Subjects: append(golden, own...), Seed: seed, Changes: changes})
	})
	t.Run("Daemons", func(t *testing.T) {
		g.daemonsDoTheirJob(t, wish.Wish{Subjects: own, Seed: seed, Starts: max(2, changes/250)})
	})
	g.sh(t, "systemctl stop keepalived; rm "+keepalived.Config.Path()+"; systemctl start gateway-api gateway-scheduler")
	g.waitUp(t)
	g.allLive(t)
	g.serves(t)
}

// common are the files that checkers read wherever they run.
var common = fuzz.Reads(command.CommonFiles)

const straceFolder = "/srv/strace/"

// bringStrace copies strace into the node, with the libraries that a bare Debian lacks.
func (g *appliance) bringStrace(t *testing.T) {
	t.Helper()
	linked, err := exec.Command("ldd", "/usr/bin/strace").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(regexp.MustCompile(`/\S*/libunwind\S*`).FindAllString(string(linked), -1), "/usr/bin/strace") {
		g.copy(t, path, straceFolder+filepath.Base(path))
	}
	g.sh(t, "chmod 755 "+straceFolder+"strace")
}

// ownSubjects are the daemons' files as they are installed, and keepalived's as it has them in a cluster.
func (g *appliance) ownSubjects(t *testing.T) []fuzz.Subject {
	t.Helper()
	contents := map[string][]byte{}
	for _, places := range fuzz.CheckedPlaces {
		for _, p := range places {
			if content, err := g.Run(t.Context(), "cat", p.Path()); err == nil {
				contents[p.Path()] = []byte(content)
			}
		}
	}
	for _, f := range virtualFiles(t) {
		contents[f.Place.Path()] = f.Content
	}
	own := slices.DeleteFunc(fuzz.Of(contents), func(s fuzz.Subject) bool { return wish.Daemons[s.Command] == "" })
	if len(own) != len(wish.Daemons) {
		t.Fatalf("of %d daemons %d have files", len(wish.Daemons), len(own))
	}
	return own
}

// attacks executes the wish as the user gateway, and passes strace's events of a process, its children and the attacker to look.
func (g *appliance) attacks(t *testing.T, w wish.Wish, pid string, look func(fuzz.Event)) (told wish.Told) {
	t.Helper()
	content, err := cbor.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	g.write(t, "/srv/wish", content)
	strace := fuzz.Strace("/srv/trace", "--interruptible=anywhere", "--attach="+pid, "--env=LD_LIBRARY_PATH", "sh", "-c",
		"setpriv --reuid=gateway --regid=gateway --init-groups /srv/attacker /srv/wish >/srv/told 2>&1; : >/srv/done")
	out := g.sh(t, "rm -f /srv/told /srv/done /srv/trace\nLD_LIBRARY_PATH="+straceFolder+" "+straceFolder+quoted(strace.Args)+` & strace=$!
		until [ -e /srv/done ]; do kill -0 $strace; sleep 0.2; done
		kill $strace; wait $strace || true
		cat /srv/told`)
	if err := json.Unmarshal([]byte(out[strings.LastIndex("\n"+out, "\n"):]), &told); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	trace, err := g.Run(t.Context(), "cat", "/srv/trace")
	if err != nil {
		t.Fatal(err)
	}
	here := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(here, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fuzz.Read(here, look); err != nil {
		t.Fatal(err)
	}
	for _, other := range told.Others {
		t.Errorf("neither done nor refused: %s", other)
	}
	return told
}

// quoted is a command as a shell reads it.
func quoted(argv []string) string {
	var words []string
	for _, a := range argv {
		words = append(words, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(words, " ")
}

// checkersDoNothing tests that the checkers of accepted files are not root, only open the staged files and what every program reads, and run nothing.
func (g *appliance) checkersDoNothing(t *testing.T, w wish.Wish) {
	checks := fuzz.Checks{Staging: host.CheckFolder, Programs: map[string]string{}, Reads: common}
	for c := range fuzz.CheckedPlaces {
		spec, err := c.Spec()
		if err != nil {
			t.Fatal(err)
		}
		user := host.CheckUser
		if spec.Rights == host.CheckingAsNobody {
			user = "nobody"
		}
		checks.Programs[spec.Argv[0]] = g.sh(t, "id -u "+user)
	}
	told := g.attacks(t, w, g.pid(t, "gateway-helper"), checks.Look)
	delete(checks.Found, -1) // before the first one, the attacker was started
	for i, found := range checks.Found {
		t.Errorf("%s\n%s", strings.Join(found, "\n"), told.Changed[i])
	}
	t.Logf("%s: %d changed files: %d refused by the helper, %d by their checkers, %d liked; %d checks, %d findings, as the users %v",
		release(), w.Changes, told.Refused, told.Disliked, told.Liked, checks.Checked, len(checks.Found), checks.Programs)
	if told.Refused+told.Disliked+told.Liked != w.Changes || checks.Checked != told.Disliked+told.Liked || told.Refused == 0 || told.Disliked == 0 || told.Liked == 0 {
		t.Error("the trace has other checks, or they show nothing")
	}
}

// daemonsDoTheirJob: with a change that the guard admits, and that its checker likes, a daemon runs no other program, and touches no other file
// than with its own files, but for those in its folders.
func (g *appliance) daemonsDoTheirJob(t *testing.T, w wish.Wish) {
	j := jobs{subject: -1, unit: map[string]host.Unit{}, tree: map[string]host.Unit{}, does: map[host.Unit]map[string]bool{}, starts: map[host.Unit]int{}, reads: map[int]bool{}, found: map[int][]string{}}
	for _, unit := range wish.Daemons {
		spec, err := unit.Spec()
		if err != nil {
			t.Fatal(err)
		}
		j.unit[spec.Binary] = unit
		j.does[unit] = map[string]bool{}
		// Frequent restarts of a unit are not a failure here.
		g.write(t, "/run/systemd/system/"+unit.Service()+".d/zz-test.conf", []byte("[Unit]\nStartLimitIntervalSec=0\n"))
	}
	g.sh(t, "systemctl daemon-reload")
	var events []fuzz.Event
	told := g.attacks(t, w, "1", func(e fuzz.Event) { events = append(events, e) })
	for _, learn := range []bool{true, false} {
		j.told, j.learn = told, learn
		clear(j.tree)
		clear(j.starts)
		for _, e := range events {
			j.look(e)
		}
	}
	for i, found := range j.found {
		t.Errorf("%s\n%s", strings.Join(found, "\n"), told.Changed[i])
	}
	t.Logf("%s: %v starts, %v of them failed, %d findings", release(), told.Started, told.Failed, len(j.found))
	for unit, did := range j.does {
		var of []string
		for _, does := range slices.Sorted(maps.Keys(did)) {
			if _, file, _ := strings.Cut(does, " "); !fuzz.ReadByAll(file, common) || strings.HasPrefix(does, "exec") {
				of = append(of, does)
			}
		}
		t.Logf("%s, as it is: %q", unit, of)
		if want := wish.Unchanged + w.Starts; told.Started[unit] != want || j.starts[unit] < want {
			t.Errorf("%s was started %d times, and the trace has %d", unit, told.Started[unit], j.starts[unit])
		}
	}
}

// jobs judges what daemons do.
type jobs struct {
	told    wish.Told
	learn   bool // from those with their own files
	unit    map[string]host.Unit
	tree    map[string]host.Unit // the processes of daemons
	does    map[host.Unit]map[string]bool
	starts  map[host.Unit]int
	reads   map[int]bool
	subject int
	found   map[int][]string
}

// talks matches calls that name their peer with an address. Only sockets in the file system are checked: talking to others is a daemon's job.
var talks = regexp.MustCompile(`sun_path=@?"([^"]*)"`)

func (j *jobs) look(e fuzz.Event) {
	if number, ok := strings.CutPrefix(e.File, fuzz.Marker); ok {
		j.subject, _ = strconv.Atoi(number)
		return
	}
	unit := j.tree[e.PID]
	switch {
	case e.Call == "":
		delete(j.tree, e.PID)
		return
	case unit != "" && e.Child != "":
		j.tree[e.Child] = unit
	case unit == "" && strings.HasPrefix(e.Call, "exec") && j.unit[e.File] != "":
		unit = j.unit[e.File]
		j.tree[e.PID] = unit
		j.starts[unit]++
	}
	if unit == "" || e.Args == "" {
		return
	}
	file := e.File
	if m := talks.FindStringSubmatch(e.Args); m != nil {
		file = m[1]
	}
	if file == "" || strings.Contains(e.Args, "O_PATH") {
		return
	}
	does := e.Call + " " + number.ReplaceAllString(filepath.Clean(file), "N")
	if j.learn && strings.HasSuffix(j.told.Changed[j.subject], ": ") {
		j.does[unit][does] = true
	}
	if !j.learn && !j.does[unit][does] && !j.own(unit, e, file) {
		j.found[j.subject] = append(j.found[j.subject], fmt.Sprintf("%s: %s", unit, e))
	}
}

// number is what differs in the names of temporary files and processes.
var number = regexp.MustCompile(`[0-9]+`)

// defaults are files that squid has where its configuration does not name others. Its unit lets it make none of them.
var defaults = map[host.Unit][]string{squid.Unit: {"/run/squid.pid", "/stdio:/var/spool/squid/netdb.state"}}

// own reports whether a file is in a daemon's folders, or is one that every program reads, and is opened.
func (j *jobs) own(unit host.Unit, e fuzz.Event, file string) bool {
	if strings.HasPrefix(e.Call, "exec") {
		return false
	}
	spec, err := unit.Spec()
	return err == nil && slices.ContainsFunc(spec.Folders, func(f host.Folder) bool { return fuzz.Within(filepath.Clean(file), f.Path) }) ||
		strings.HasPrefix(e.Call, "open") && (fuzz.ReadByAll(file, common) || slices.Contains(defaults[unit], file))
}
