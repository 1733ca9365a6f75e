package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"edge.internal/gateway/internal/cluster"
	"edge.internal/gateway/internal/kit"
	"edge.internal/gateway/internal/kit/actor"
	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/db/replica"
	"edge.internal/gateway/internal/kit/failpoint"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/chrony"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/longtest"
	"edge.internal/gateway/internal/kit/waittest"
	"edge.internal/gateway/internal/schema"
)

// hasty is a fast pace for tests.
var hasty = cluster.Pace{
	Beat: 250 * time.Millisecond, Resume: 300 * time.Millisecond, ResumeAnyway: time.Second, Retry: 200 * time.Millisecond,
	Stray: 500 * time.Millisecond, Stuck: 500 * time.Millisecond, Resync: 500 * time.Millisecond,
}

// hurry is how long people wait for an answer here before something else happens.
const hurry = time.Second

// seeds is how many pairs of rows always exist. There are more than a run changes: a node that would lose more than half of its rows
// waits for a person's decision, and there is no person here.
const seeds = 200

// TestProperty runs two nodes, each a process with its own PostgreSQL, through changes on both, kill -9 of either process and of the
// databases' processes, cut and hanging links, planned and forced promotions, repairs, changed clocks, and syncs and promotions that die
// half-way. When everything is healed, both are equal; each acknowledged change exists or is in a difference file; nothing was ever
// rendered without rows that always exist, or with only one of two that belong together; and no two nodes have accepted changes in the
// same epoch.
//
// The nodes run this test, too.
func TestProperty(t *testing.T) {
	if os.Getenv("PROPERTY_NODE") != "" {
		runNode(t)
		return
	}
	t.Parallel()
	runs, seed := longtest.Number(t, "GATEWAY_CLUSTER_RUNS", 50, 50), uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		runs, seed = 1, n
	}
	t.Logf("%d runs from SEED=%d, which repeats the first one alone", runs, seed)
	// They mostly wait, so two casts share the runs.
	const casts = 2
	for first := range uint64(min(casts, runs)) {
		t.Run(fmt.Sprintf("Cast%d", first+1), func(t *testing.T) {
			t.Parallel()
			c := newCast(t)
			done := 0
			for n := first; n < uint64(runs) && !t.Failed(); n += casts {
				c.run(t, seed+n)
				done++
			}
			t.Logf("%d runs; %d changes were acknowledged, %d of them are in difference files alone; %d renderings; epoch %d", done, len(c.acknowledged), c.kept, c.renderings(t), c.nodes[0].state(t).Epoch)
			if c.renderings(t) < done || len(c.acknowledged) < done {
				t.Error("too little has happened")
			}
		})
	}
}

// --- a node ---

// order is the configuration of a node.
type order struct {
	ID, Name, Dir, Database string
	Reach                   map[string]string // the other databases
	Port                    int               // the port for others
	Primary, Token          string            // the cluster to join
}

// runNode runs a node until it is killed or its parent is gone.
func runNode(t *testing.T) {
	var o order
	ok(t, json.Unmarshal([]byte(os.Getenv("PROPERTY_NODE")), &o))
	d, err := db.Open(o.Database)
	ok(t, err)
	for d.Attach(t.Context(), schema.Migrations) != nil { // it is killed, too
		time.Sleep(20 * time.Millisecond)
	}
	b := kittest.NewOn(t, d)
	b.Paths = kit.Paths{Root: o.Dir}
	log, err := os.OpenFile(filepath.Join(o.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ok(t, err)
	b.Log = slog.New(slog.NewTextHandler(log, nil))
	rendered := &renderings{file: filepath.Join(o.Dir, "renderings")}
	apply.Register(b.Engine, apply.Component[[]string]{
		ID: apply.NTP, Unit: chrony.Unit, Load: rendered.load, Render: rendered.render,
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(ctx context.Context, _ []string, _ []host.File) error { return b.Machine.Restart(ctx, chrony.Unit) },
		Verify: func(context.Context, []string, []host.File) error { return nil },
	})
	g := gateOf(t, b, cluster.Node{ID: o.ID, Name: o.Name}, &reach{of: o.Reach}, &hasty)
	g.room.SetAgentPort(o.Port)
	if o.Primary != "" && g.state(t).Role == cluster.Single {
		g.room.Manage(func(string) string { return o.Primary })
		ok(t, g.room.Join(actor.With(t.Context(), actor.System("test")), cluster.Wish{Primary: "one.example.net", Token: o.Token}, func(string) error { return nil }))
	}
	go g.room.Run(t.Context())

	mux := http.NewServeMux()
	mux.Handle("/", b.Handler())
	mux.HandleFunc("POST /pair", func(w http.ResponseWriter, r *http.Request) {
		_, err := b.Engine.Commit(actor.With(r.Context(), actor.System("test")), []apply.ID{apply.NTP}, func(tx *db.Tx) ([]apply.Row, error) {
			return nil, pair2(tx, r.FormValue("name"), r.FormValue("poll"))
		})
		switch {
		case db.Elsewhere(err):
			w.WriteHeader(http.StatusConflict)
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /clock", func(_ http.ResponseWriter, r *http.Request) {
		by, _ := time.ParseDuration(r.FormValue("by"))
		g.ahead.by.Store(int64(by))
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, rendered.now()) })
	s := httptest.NewServer(mux)
	defer s.Close()
	fmt.Printf("\nREADY %s %s %s\n", s.Listener.Addr(), g.listener.Addr(), g.api.Listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair2 stores or changes two rows that differ only in their names.
func pair2(tx *db.Tx, name, poll string) error {
	for _, half := range []string{"a-", "b-"} {
		tx.Queue(insertPool+`VALUES ($1, now(), now(), 'pool', $2, true, false, $3::text::int, 10) ON CONFLICT (address) DO UPDATE SET minpoll = excluded.minpoll`, uuid.Must(uuid.NewV7()), half+name, poll)
	}
	return nil
}

// renderings records the renderings of a node, and what is wrong with them.
type renderings struct {
	file string
	last atomic.Pointer[string]
}

func (r *renderings) load(ctx context.Context, q db.Querier) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT address || ' ' || minpoll FROM ntp_pools WHERE address ~ '^[ab]-' ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (r *renderings) render(lines []string) ([]host.File, error) {
	var wrong []string
	always := 0
	for _, l := range lines {
		if strings.HasPrefix(l, "a-seed") {
			always++
		}
		half := "b-"
		if strings.HasPrefix(l, "b-") {
			half = "a-"
		}
		if _, there := slices.BinarySearch(lines, half+l[2:]); !there {
			wrong = append(wrong, l+" is alone")
		}
	}
	if len(lines) > 0 && always != seeds {
		wrong = append(wrong, fmt.Sprintf("%d of those that are always there", always))
	}
	f, err := os.OpenFile(r.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fmt.Fprintf(f, "%d %s\n", len(lines), strings.Join(wrong, ", "))
	r.last.Store(new(strings.Join(lines, "\n")))
	return []host.File{{Place: chrony.DropIn, Content: []byte(strings.Join(lines, "\n"))}}, nil
}

func (r *renderings) now() string {
	if s := r.last.Load(); s != nil {
		return *s
	}
	return ""
}

// --- the cast ---

// cast is the two nodes, the links between them, and the changes that they have acknowledged.
type cast struct {
	nodes        []*actorNode
	mu           sync.Mutex
	acknowledged []string
	kept         int
	number       int
}

// actorNode is a node as the test sees it.
type actorNode struct {
	order
	t        *testing.T
	db       *db.DB
	agents   *link // for the other node
	database *link
	points   string
	mu       sync.Mutex
	cmd      *exec.Cmd
	stdin    io.Closer
	api      string
	join     string
}

func newCast(t *testing.T) *cast {
	t.Helper()
	c := &cast{}
	for _, name := range []string{"one", "two"} {
		_, server := dbtest.Own(t)
		d, _ := dbtest.Pair(t, server)
		n := &actorNode{t: t, db: d, points: t.TempDir(), agents: newLink(t), database: newLink(t)}
		n.order = order{ID: uuid.NewString(), Name: name + ".example.net", Dir: t.TempDir(), Database: dbtest.Address(d), Port: n.agents.port(), Reach: map[string]string{}}
		config, err := pgx.ParseConfig(n.Database)
		ok(t, err)
		n.database.to.Store(new(filepath.Join(config.Host, ".s.PGSQL.5432")))
		for _, sql := range []string{
			"ALTER DATABASE " + config.Database + " SET synchronous_commit = on", // the test servers disable it
			"ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms'", "ALTER SYSTEM SET wal_sender_timeout = '1s'", "ALTER SYSTEM SET wal_receiver_timeout = '1s'", "SELECT pg_reload_conf()",
			`CREATE TABLE accepted (epoch bigint)`,
			`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.accepted SELECT epoch FROM public.ha_state; RETURN NULL; END $$`,
			`CREATE TRIGGER zz_note AFTER INSERT ON ntp_pools FOR EACH STATEMENT EXECUTE FUNCTION note()`,
		} {
			dbtest.Exec(t, d, sql)
		}
		c.nodes = append(c.nodes, n)
	}
	for i, n := range c.nodes {
		other := c.nodes[1-i]
		config, err := pgx.ParseConfig(other.Database)
		ok(t, err)
		n.Reach[other.ID] = fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=%s sslmode=disable connect_timeout=2 tcp_user_timeout=3000", other.database.port(), config.Database, config.User)
	}
	one, other := c.nodes[0], c.nodes[1]
	dbtest.Exec(t, one.db, insertPool+`SELECT gen_random_uuid(), now(), now(), 'pool', half || 'seed-' || n || '.example.net', true, false, 6, 10 FROM generate_series(0, $1::int - 1) n, unnest('{a-,b-}'::text[]) half`, seeds)
	one.start()
	var token cluster.Token
	waittest.Until(t, "a token", func() bool {
		return one.call(http.MethodPost, "/cluster/join-tokens", `{"node_fqdn":"two.example.net"}`, &token) == 201
	})
	other.Primary, other.Token = one.join, token.Token
	other.start()
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.kill()
		}
	})
	return c
}

// start starts the node's process, and returns when it answers.
func (n *actorNode) start() {
	n.t.Helper()
	o, err := json.Marshal(n.order)
	ok(n.t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestProperty$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), "PROPERTY_NODE="+string(o), "GATEWAY_FAILPOINTS="+n.points)
	stdin, err := cmd.StdinPipe()
	ok(n.t, err)
	out, err := cmd.StdoutPipe()
	ok(n.t, err)
	cmd.Stderr = os.Stderr
	ok(n.t, cmd.Start())
	lines, output := bufio.NewScanner(out), ""
	for lines.Scan() {
		var api, agents, join string
		if k, _ := fmt.Sscanf(lines.Text(), "READY %s %s %s", &api, &agents, &join); k == 3 {
			n.agents.to.Store(&agents)
			n.mu.Lock()
			n.cmd, n.stdin, n.api, n.join = cmd, stdin, api, join
			n.mu.Unlock()
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return
		}
		output += lines.Text() + "\n"
	}
	_ = cmd.Wait()
	if n.t.Context().Err() == nil && strings.Contains(output, "FAIL") {
		n.t.Errorf("%s: %s", n.Name, output)
	}
}

// kill ends the process at once.
func (n *actorNode) kill() {
	n.mu.Lock()
	cmd, stdin := n.cmd, n.stdin
	n.cmd = nil
	n.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	stdin.Close()
	_ = cmd.Wait()
}

// alive reports whether the process runs; a failpoint may have ended it.
func (n *actorNode) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// call makes a request to the node; 0 means that there was no answer.
func (n *actorNode) call(method, path, body string, into any) int {
	return n.callFor(30*time.Second, method, path, body, into)
}

// callFor is call with another limit, after which the caller hangs up.
func (n *actorNode) callFor(within time.Duration, method, path, body string, into any) int {
	n.mu.Lock()
	api := n.api
	n.mu.Unlock()
	to := "http://" + api + path
	if strings.HasPrefix(path, "/cluster/") {
		to = "http://" + api + httpd.Prefix + path
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer admin")
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	switch into := into.(type) {
	case nil:
	case *string:
		*into = string(b)
	default:
		err = errors.Join(err, json.Unmarshal(b, &struct{ Data any }{into}))
	}
	if err != nil {
		return 0
	}
	return res.StatusCode
}

func (n *actorNode) pair(name string, poll int) int {
	return n.call(http.MethodPost, fmt.Sprintf("/pair?name=%s&poll=%d", name, poll), "", nil)
}

// state reads the node's state from its database.
func (n *actorNode) state(t *testing.T) (s cluster.State) {
	t.Helper()
	waittest.Until(t, "the database of "+n.Name+" answers", func() bool { var err error; s, err = cluster.Load(t.Context(), n.db); return err == nil })
	return s
}

// link is a cable with two ends in this process that can be cut, or hang.
type link struct {
	net.Listener
	to     atomic.Pointer[string]
	cut    atomic.Bool
	hang   atomic.Bool
	mu     sync.Mutex
	within map[net.Conn]bool
}

func newLink(t *testing.T) *link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	x := &link{Listener: l, within: map[net.Conn]bool{}}
	t.Cleanup(func() { l.Close(); x.set(true, false) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go x.carry(conn)
		}
	}()
	return x
}

func (l *link) port() int { return l.Addr().(*net.TCPAddr).Port }

// set cuts the link, makes it hang, or heals it. Connections end, unless it hangs.
func (l *link) set(cut, hang bool) {
	l.cut.Store(cut)
	l.hang.Store(hang)
	if hang {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.within {
		if cut {
			conn.Close()
		}
	}
}

func (l *link) carry(from net.Conn) {
	defer from.Close()
	at := l.to.Load()
	if l.cut.Load() || at == nil {
		return
	}
	network := "tcp"
	if strings.HasPrefix(*at, "/") {
		network = "unix"
	}
	to, err := net.Dial(network, *at)
	if err != nil {
		return
	}
	defer to.Close()
	l.mu.Lock()
	l.within[from] = true
	l.mu.Unlock()
	defer func() { l.mu.Lock(); delete(l.within, from); l.mu.Unlock() }()
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			defer func() { done <- struct{}{} }()
			b := make([]byte, 32<<10)
			for {
				n, err := way[0].Read(b)
				for l.hang.Load() && !l.cut.Load() {
					time.Sleep(5 * time.Millisecond)
				}
				if n > 0 {
					if _, err := way[1].Write(b[:n]); err != nil {
						return
					}
				}
				if err != nil {
					return
				}
			}
		}()
	}
	<-done
}

// links sets the links between the nodes.
func (c *cast) links(cut, hang bool) {
	for _, n := range c.nodes {
		n.agents.set(cut, hang)
		n.database.set(cut, hang)
	}
}

// write changes rows on a node until its context ends.
func (c *cast) write(ctx context.Context, n *actorNode, random *rand.Rand) {
	for ctx.Err() == nil {
		c.mu.Lock()
		c.number++
		name := fmt.Sprintf("%d.example.net", c.number)
		c.mu.Unlock()
		if random.IntN(4) == 0 {
			n.pair(fmt.Sprintf("seed-%d.example.net", random.IntN(seeds)), 4+random.IntN(6))
		} else if n.pair(name, 6) == 200 {
			c.mu.Lock()
			c.acknowledged = append(c.acknowledged, name)
			c.mu.Unlock()
		}
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
	}
}

// run does some of everything that may happen, heals what can be healed, and checks the result.
func (c *cast) run(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	steps := []string{fmt.Sprintf("SEED=%d", seed)}
	defer func() {
		if t.Failed() {
			t.Logf("%s", strings.Join(steps, "\n"))
			for _, n := range c.nodes {
				output, _ := os.ReadFile(filepath.Join(n.Dir, "log"))
				s, err := cluster.Load(context.Background(), n.db)
				sub, looked := replica.Look(context.Background(), n.db)
				t.Logf("%s: %+v %v %+v %v, alive %t\n%s", n.Name, s, err, sub, looked, n.alive(), output[max(0, len(output)-3000):])
			}
		}
	}()
	writing, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i, n := range c.nodes {
		own := rand.New(rand.NewPCG(seed, uint64(i)+2)) //nolint:gosec // a test
		all.Go(func() { c.write(writing, n, own) })
	}
	dieAt := func(points []string) string {
		point := points[random.IntN(len(points))]
		for _, n := range c.nodes {
			ok(t, failpoint.Arm(n.points, point, "kill", ""))
		}
		return ", and die at " + point
	}
	for range 3 + random.IntN(5) {
		n := c.nodes[random.IntN(2)]
		what, answer := "", 0
		switch random.IntN(10) {
		case 0:
			what = "kill"
			n.kill()
		case 1:
			what = "start"
			if !n.alive() {
				n.kill()
				n.start()
			}
		case 2:
			what = "kill the database"
			n.killDatabase(random)
		case 3:
			what = "cut"
			c.links(true, false)
		case 4:
			what = "hang"
			c.links(false, true)
		case 5:
			what = "heal"
			c.links(false, false)
		case 6, 7:
			force := random.IntN(2) == 0
			what = fmt.Sprintf("promote, force %t", force)
			if random.IntN(2) == 0 {
				what += dieAt(failpoint.Promote())
			}
			answer = n.callFor(hurry, http.MethodPost, "/cluster/promote", fmt.Sprintf(`{"force":%t}`, force), nil)
		case 8:
			what = "repair"
			if random.IntN(2) == 0 {
				what += dieAt(failpoint.Sync())
			}
			answer = n.callFor(hurry, http.MethodPost, "/cluster/repair-replication", `{}`, nil)
		case 9:
			by := time.Duration(random.IntN(7200)-3600) * time.Second
			what = "clock " + by.String()
			answer = n.call(http.MethodPost, "/clock?by="+by.String(), "", nil)
		}
		steps = append(steps, fmt.Sprintf("%s: %s %d", n.Name, what, answer))
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
	}
	c.links(false, false)
	for _, n := range c.nodes {
		for _, point := range slices.Concat(failpoint.Sync(), failpoint.Promote()) {
			_ = os.Remove(filepath.Join(n.points, point))
		}
	}
	c.settle(t, &steps)
	stop()
	all.Wait()
	c.check(t)
}

// killDatabase kills one of the server's processes: the server then ends all of them, and recovers from disk. A kill during recovery
// would end it for good.
func (n *actorNode) killDatabase(random *rand.Rand) {
	rows, err := n.db.Query(n.t.Context(), "SELECT pid FROM pg_stat_activity ORDER BY pid")
	if err != nil {
		return
	}
	if pids, err := pgx.CollectRows(rows, pgx.RowTo[int]); err == nil {
		_ = syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL)
	}
}

// settle waits until one node is the primary and the other follows. Where a person must decide, it does what a person would.
func (c *cast) settle(t *testing.T, steps *[]string) {
	t.Helper()
	began, decided := time.Now(), time.Now()
	waittest.Until(t, "one is the primary and the other one follows", func() bool {
		for _, n := range c.nodes {
			if !n.alive() {
				n.kill()
				n.start()
			}
		}
		one, other := c.nodes[0].state(t), c.nodes[1].state(t)
		primary, standby := c.nodes[0], c.nodes[1]
		if other.Role == cluster.Primary {
			primary, standby, one, other = standby, primary, other, one
		}
		if one.Role == cluster.Primary && other.Role == cluster.Standby && one.Epoch == other.Epoch {
			if s, err := replica.Look(t.Context(), standby.db); err == nil && s.Worker {
				return true
			}
		}
		if one.Role != cluster.Primary && one.Role != cluster.SteppingDown && other.Role != cluster.SteppingDown && time.Since(decided) > 500*time.Millisecond {
			decided = time.Now()
			*steps = append(*steps, fmt.Sprintf("no primary for %s: %s is promoted %d", time.Since(began), primary.Name, primary.call(http.MethodPost, "/cluster/promote", `{"force":true}`, nil)))
		}
		time.Sleep(20 * time.Millisecond)
		return false
	})
}

// roles returns the nodes by their roles.
func (c *cast) roles(t *testing.T) (primary, standby *actorNode) {
	t.Helper()
	if c.nodes[0].state(t).Role == cluster.Primary {
		return c.nodes[0], c.nodes[1]
	}
	return c.nodes[1], c.nodes[0]
}

// check checks the invariants.
func (c *cast) check(t *testing.T) {
	t.Helper()
	primary, standby := c.roles(t)
	hash := func(n *actorNode) (h replica.Hash) {
		waittest.Until(t, "a hash", func() bool {
			var err error
			h, err = replica.HashOf(t.Context(), n.db, []string{"audit_entries", "apply_revisions", "certificate_challenges"})
			return err == nil
		})
		return h
	}
	waittest.Until(t, "both are the same", func() bool { return maps.Equal(hash(primary), hash(standby)) })

	there := map[string]bool{}
	rows, err := primary.db.Query(t.Context(), "SELECT address FROM ntp_pools")
	ok(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	ok(t, err)
	for _, name := range names {
		there[name] = true
	}
	var files strings.Builder
	for _, n := range c.nodes {
		list, err := filepath.Glob(filepath.Join(n.Dir, "var/lib/gateway/cluster/differences-*.jsonl"))
		ok(t, err)
		for _, f := range list {
			b, err := os.ReadFile(f)
			ok(t, err)
			files.Write(b)
		}
	}
	c.kept = 0
	for _, name := range c.acknowledged {
		for _, half := range []string{"a-", "b-"} {
			switch {
			case there[half+name]:
			case strings.Contains(files.String(), `"`+half+name+`"`):
				c.kept++
			default:
				t.Errorf("%s was acknowledged and is nowhere", half+name)
			}
		}
	}

	var want []string
	rows, err = primary.db.Query(t.Context(), `SELECT address || ' ' || minpoll FROM ntp_pools WHERE address ~ '^[ab]-' ORDER BY 1`)
	ok(t, err)
	want, err = pgx.CollectRows(rows, pgx.RowTo[string])
	ok(t, err)
	for _, n := range c.nodes {
		waittest.Until(t, "what "+n.Name+" has is rendered", func() bool {
			var live string
			return n.call(http.MethodGet, "/live", "", &live) == 200 && live == strings.Join(want, "\n")
		})
	}
	c.renderings(t)

	epochs := map[int64]string{}
	for _, n := range c.nodes {
		rows, err := n.db.Query(t.Context(), "SELECT DISTINCT epoch FROM accepted")
		ok(t, err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		ok(t, err)
		for _, epoch := range list {
			if by := epochs[epoch]; by != "" {
				t.Errorf("%s and %s have taken changes of the epoch %d", by, n.Name, epoch)
			}
			epochs[epoch] = n.Name
		}
	}
}

// renderings counts the renderings, and reports incomplete ones.
func (c *cast) renderings(t *testing.T) (count int) {
	t.Helper()
	for _, n := range c.nodes {
		b, err := os.ReadFile(filepath.Join(n.Dir, "renderings"))
		ok(t, err)
		joined := false
		for line := range strings.Lines(string(b)) {
			count++
			rows, wrong, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch {
			case rows == "0" && !joined: // it is in no cluster yet
			case rows == "0" || wrong != "" && (joined || n == c.nodes[1]):
				t.Errorf("%s has rendered %s rows: %s", n.Name, rows, wrong)
			}
			if n, err := strconv.Atoi(rows); err == nil && n >= 2*seeds {
				joined = true
			}
		}
	}
	return count
}
