package resource_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"edge.internal/gateway/internal/kit/alarm"
	"edge.internal/gateway/internal/kit/clock"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

// waiting makes a change that must be confirmed.
func waiting(t *testing.T, b *kittest.Bench, method, path string, body any) (set string) {
	t.Helper()
	a := b.Do(t, "admin", method, path, body, httpd.ConfirmWithinHeader, "600")
	if a.Status != 200 && a.Status != 201 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return a.Header.Get(httpd.ChangeSetHeader)
}

func discard(t *testing.T, b *kittest.Bench, set string) (out resource.Discarded) {
	t.Helper()
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+set+"/discard", nil).Want(t, 200).Into(t, &out)
	return out
}

// alarms returns the open alarms about changes that could not be taken back.
func alarms(t *testing.T, b *kittest.Bench) (list []alarm.Condition) {
	t.Helper()
	open, err := b.Alarms.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range open {
		if c.Kind == resource.ChangeStays.Name {
			list = append(list, c)
		}
	}
	return list
}

// interrupted returns toys, and a function that sets what happens during their next rehearsal.
func interrupted() (kind resource.Kind[Toy], next func(f func())) {
	kind = toys()
	check := kind.Check
	var between func()
	kind.Check = func(ctx context.Context, tx *db.Tx, was, now *Toy) error {
		if f := between; f != nil && tx.Supposed() {
			between = nil
			f()
		}
		return check(ctx, tx, was, now)
	}
	return kind, func(f func()) { between = f }
}

func TestNoLaterEditKeepsAnUnconfirmedRow(t *testing.T) {
	b := remembering(t)
	dbtest.Exec(t, b.DB, `ALTER TABLE parts DROP CONSTRAINT parts_toy_id_fkey, ADD CONSTRAINT parts_toy_id_fkey FOREIGN KEY (toy_id) REFERENCES toys ON DELETE CASCADE`)
	id := waiting(t, b, http.MethodPost, "/toys", `{"name":"a"}`)
	var list []Toy
	b.Get(t, "/toys").Into(t, &list)
	path := "/toys/" + list[0].ID.String()
	b.Do(t, "admin", http.MethodPut, path, `{"tags":["noted"]}`).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, path+"/parts", `{"name":"later"}`).Want(t, 201)
	out := discard(t, b, id)
	if now := rows(t, b, "/toys"); now != "[]" {
		t.Error(now)
	}
	if out.State != "taken_back" || out.RevertedBy == nil || len(out.Unrestored) != 0 || len(out.Conflicts) == 0 || out.Conflicts[0].Taken != "then" {
		t.Errorf("%+v", out)
	}
	if list := alarms(t, b); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestTakeBackReportsWhatItLeaves(t *testing.T) {
	b := remembering(t)
	const many = 25
	var ops []any
	for i := range many {
		ops = append(ops, map[string]any{"kind": "toy", "verb": "create", "body": map[string]any{"name": fmt.Sprintf("t%d", i)}})
	}
	ops = append(ops, map[string]any{"kind": "toy", "verb": "create", "body": map[string]any{"name": "free"}})
	id := waiting(t, b, http.MethodPost, "/change-sets", map[string]any{"operations": ops})
	var list []Toy
	b.Get(t, "/toys").Into(t, &list)
	for _, toy := range list[:many] {
		b.Do(t, "admin", http.MethodPost, "/toys/"+toy.ID.String()+"/wheels", `{"name":"w"}`).Want(t, 201)
	}
	out := discard(t, b, id)
	if out.State != "taken_back" || len(out.Unrestored) != many || out.Unrestored[0].Reason != "It is still in use." {
		t.Fatalf("%+v", out)
	}
	if now := rows(t, b, "/toys"); strings.Contains(now, "free") {
		t.Error(now)
	}
	raised := alarms(t, b)
	if len(raised) != 1 || raised[0].Key != id || !strings.Contains(raised[0].Message, "toy t") || !strings.Contains(raised[0].Message, "5 more") {
		t.Fatalf("%+v", raised)
	}
	// Once nothing is in the way, a revert removes the rest and clears the alarm.
	dbtest.Exec(t, b.DB, `DELETE FROM wheels`)
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 200)
	if now := rows(t, b, "/toys"); now != "[]" || len(alarms(t, b)) != 0 {
		t.Errorf("%s %+v", now, alarms(t, b))
	}
}

// later is a clock that is an hour ahead.
type later struct{ clock.Clock }

func (l later) Now() time.Time { return l.Clock.Now().Add(time.Hour) }

func TestAChangeThatCannotBeTakenBackCanBeKept(t *testing.T) {
	kind := toys()
	kind.Check = func(_ context.Context, _ *db.Tx, _, now *Toy) error {
		if now == nil {
			return errors.New("broken")
		}
		return nil
	}
	b := rememberingOf(t, kind)
	id := waiting(t, b, http.MethodPost, "/toys", `{"name":"a"}`)
	b.Resources.Clock = later{b.Resources.Clock}
	confirm := func() *kittest.Answer {
		return b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/confirm", nil, "X-Test-Connection", "new")
	}
	for range 5 {
		if a := confirm().Want(t, 409); !strings.Contains(a.Error.Message, "has run out") {
			t.Fatalf("%s", a.Body)
		}
		if len(alarms(t, b)) != 0 {
			t.Fatal("alarm raised too soon")
		}
		b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/discard", nil).Want(t, 500)
	}
	if raised := alarms(t, b); len(raised) != 1 || !strings.Contains(raised[0].Message, "cannot be taken back") {
		t.Fatalf("%+v", raised)
	}
	confirm().Want(t, 200)
	if len(b.Engine.Waiting()) != 0 || whole(t, b, id).State != "confirmed" || len(alarms(t, b)) != 0 {
		t.Errorf("%+v %+v", b.Engine.Waiting(), alarms(t, b))
	}
}

// ahead is a clock that can be set ahead and signals when a worker waits for it.
type ahead struct {
	clock.Clock
	by     atomic.Int64
	waited chan struct{}
}

func (a *ahead) Now() time.Time { return a.Clock.Now().Add(time.Duration(a.by.Load())) }

func (a *ahead) At(at time.Time) <-chan time.Time {
	a.waited <- struct{}{}
	return a.Clock.At(at)
}

// A transaction may take longer than the time to confirm its change: the change is not taken back before it is stored, and its
// time begins then.
func TestTheTimeToConfirmBeginsWhenTheChangeIsStored(t *testing.T) {
	kind := toys()
	checking, held := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(held) })
	defer goOn()
	kind.Check = func(_ context.Context, tx *db.Tx, _, _ *Toy) error {
		if !tx.Supposed() {
			close(checking)
			<-held
		}
		return nil
	}
	b := rememberingOf(t, kind)
	clock := &ahead{Clock: b.Resources.Clock, waited: make(chan struct{})}
	b.Resources.Clock = clock
	answers := make(chan *kittest.Answer, 1)
	go func() {
		answers <- b.Do(t, "admin", http.MethodPost, "/toys", `{"name":"slow"}`, httpd.ConfirmWithinHeader, "10")
	}()
	<-checking
	clock.by.Store(int64(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	guarded := make(chan struct{})
	go func() { b.Resources.Guard(ctx); close(guarded) }()
	<-clock.waited // it has checked
	cancel()
	<-guarded
	waits := b.Engine.Waiting()
	if len(waits) != 1 {
		t.Fatalf("%+v", waits)
	}
	a := b.Do(t, "admin", http.MethodPost, "/change-sets/"+waits[0].ID.String()+"/discard", nil).Want(t, 409)
	if !strings.Contains(a.Error.Message, "still being applied") || a.Header.Get("Retry-After") == "" {
		t.Errorf("%v %s", a.Header, a.Body)
	}
	clock.by.Store(0)
	begins := clock.Now()
	goOn()
	answer := (<-answers).Want(t, 201)
	by, err := time.Parse(time.RFC3339Nano, answer.Header.Get(httpd.ConfirmByHeader))
	if err != nil || by.Before(begins.Add(10*time.Second)) {
		t.Errorf("%s %s %v", begins, by, err)
	}
	// The answer, the history, and the next start all use the same deadline.
	set := whole(t, b, answer.Header.Get(httpd.ChangeSetHeader))
	again := kittest.Again(t, b)
	if err := again.Engine.Recover(); err != nil {
		t.Fatal(err)
	}
	if left := again.Engine.Waiting(); len(left) != 1 || !left[0].ConfirmBy.Equal(by) || set.State != "waiting" || !set.ConfirmBy.Equal(by) {
		t.Errorf("%s %+v %+v", by, left, set)
	}
}

func TestATakeBackComesBackToARowThatAnotherChangeHeld(t *testing.T) {
	kind, next := interrupted()
	b := rememberingOf(t, kind)
	x, y := create(t, b, `{"name":"x"}`), create(t, b, `{"name":"y"}`)
	blue := func(toy Toy) map[string]any {
		return map[string]any{"kind": "toy", "verb": "update", "id": toy.ID, "body": map[string]any{"color": "blue"}}
	}
	id := waiting(t, b, http.MethodPost, "/change-sets", map[string]any{"operations": []any{blue(x), blue(y)}})
	next(func() { b.Do(t, "admin", http.MethodPut, "/toys/"+x.ID.String(), `{"count":9}`).Want(t, 200) })
	if out := discard(t, b, id); len(out.Unrestored) != 0 || out.State != "taken_back" {
		t.Errorf("%+v", out)
	}
	for _, path := range []string{"/toys/" + x.ID.String(), "/toys/" + y.ID.String()} {
		var now Toy
		if b.Get(t, path).Into(t, &now); now.Color != "red" || now.Name == "x" && now.Count != 9 {
			t.Errorf("%+v", now)
		}
	}
}

func TestRevertLosesNoEditThatComesInBetween(t *testing.T) {
	kind, next := interrupted()
	b := rememberingOf(t, kind)
	x, y := create(t, b, `{"name":"x"}`), create(t, b, `{"name":"y"}`)
	blue := func(toy Toy) map[string]any {
		return map[string]any{"kind": "toy", "verb": "update", "id": toy.ID, "body": map[string]any{"color": "blue"}}
	}
	id := b.Do(t, "admin", http.MethodPost, "/change-sets", map[string]any{"operations": []any{blue(x), blue(y)}}).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	next(func() { b.Do(t, "admin", http.MethodPut, "/toys/"+x.ID.String(), `{"count":9}`).Want(t, 200) })
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 412)
	var now Toy
	if b.Get(t, "/toys/"+x.ID.String()).Into(t, &now); now.Count != 9 || now.Color != "blue" {
		t.Errorf("%+v", now)
	}
	// With a basis, any other change counts.
	var out resource.Reverted
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", `{"preview":true}`).Want(t, 200).Into(t, &out)
	next(func() { create(t, b, `{"name":"z"}`) })
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", map[string]any{"basis": out.Basis}).Want(t, 412)
	next(func() { create(t, b, `{"name":"zz"}`) })
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+id+"/revert", nil).Want(t, 200)
	if b.Get(t, "/toys/"+x.ID.String()).Into(t, &now); now.Count != 9 || now.Color != "red" {
		t.Errorf("%+v", now)
	}
}

func TestDocumentIsRefusedIfAChangeComesInBetween(t *testing.T) {
	kind, next := interrupted()
	b := rememberingOf(t, kind)
	create(t, b, `{"name":"x"}`)
	const text = "gateway: 1\ntoy:\n  - name: x\n    color: blue\n"
	var plan resource.Planned
	document(t, b, "admin", "plan", text).Want(t, 200).Into(t, &plan)
	next(func() { create(t, b, `{"name":"z"}`) })
	document(t, b, "admin", "apply?basis="+plan.Basis.String(), text).Want(t, 412)
	next(func() { create(t, b, `{"name":"zz"}`) })
	document(t, b, "admin", "apply", text).Want(t, 200)
}

func TestRevertToATimeDeletesChildrenFirst(t *testing.T) {
	b := remembering(t)
	dbtest.Exec(t, b.DB, `ALTER TABLE parts DROP CONSTRAINT parts_toy_id_fkey, ADD CONSTRAINT parts_toy_id_fkey FOREIGN KEY (toy_id) REFERENCES toys ON DELETE CASCADE`)
	a := create(t, b, `{"name":"a"}`)
	var moved Wheel
	b.Do(t, "admin", http.MethodPost, "/toys/"+a.ID.String()+"/wheels", `{"name":"moved"}`).Want(t, 201).Into(t, &moved)
	before, wheels := rows(t, b, "/toys"), rows(t, b, "/wheels")
	at := time.Now().UTC().Format(time.RFC3339Nano)
	d := create(t, b, `{"name":"d"}`)
	path := "/toys/" + d.ID.String()
	b.Do(t, "admin", http.MethodPost, path+"/wheels", `{"name":"w"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPost, path+"/parts", `{"name":"p"}`).Want(t, 201)
	b.Do(t, "admin", http.MethodPut, "/wheels/"+moved.ID.String(), map[string]any{"toy_id": d.ID}).Want(t, 200)
	b.Do(t, "admin", http.MethodPut, path, `{"count":5}`).Want(t, 200)
	var out resource.Reverted
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at, "preview": true}).Want(t, 200).Into(t, &out)
	if len(out.Conflicts) != 0 || len(out.Unrestored) != 0 {
		t.Errorf("%+v", out)
	}
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at}).Want(t, 200)
	if rows(t, b, "/toys") != before || rows(t, b, "/wheels") != wheels {
		t.Errorf("%s\n%s", rows(t, b, "/toys"), rows(t, b, "/wheels"))
	}
}

func TestWhatTheGatewayMakesGoesOn(t *testing.T) {
	kind := toys()
	kind.Made = func(*Toy) []string { return []string{"tags", "secret"} }
	b := rememberingOf(t, kind)
	toy := create(t, b, `{"name":"a","secret":"first-canary"}`)
	path := "/toys/" + toy.ID.String()
	at := time.Now().UTC().Format(time.RFC3339Nano)
	set := b.Do(t, "admin", http.MethodPut, path, `{"tags":["renewed"],"secret":"second-canary"}`).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	stays := fmt.Sprint([]resource.Staying{{Kind: "toy", ID: toy.ID, Name: "a", Fields: []string{"tags", "secret"}}})
	for path, body := range map[string]map[string]any{"/configuration/revert": {"at": at}, "/change-sets/" + set + "/revert": {}} {
		refused := b.Do(t, "admin", http.MethodPost, path, body).Want(t, 409) // nothing to revert
		if !strings.Contains(string(refused.Body), `"stays":[{"kind":"toy"`) {
			t.Errorf("%s: %s", path, refused.Body)
		}
		body["preview"] = true
		var out resource.Reverted
		b.Do(t, "admin", http.MethodPost, path, body).Want(t, 200).Into(t, &out)
		if fmt.Sprint(out.Stays) != stays || len(out.Changes) != 0 {
			t.Errorf("%s: %+v", path, out)
		}
	}
	set = b.Do(t, "admin", http.MethodPut, path, `{"count":9}`).Want(t, 200).Header.Get(httpd.ChangeSetHeader)
	var out resource.Reverted
	b.Do(t, "admin", http.MethodPost, "/change-sets/"+set+"/revert", `{"preview":true}`).Want(t, 200).Into(t, &out)
	if len(out.Stays) != 0 {
		t.Errorf("that change has made nothing: %+v", out.Stays)
	}
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at}).Want(t, 200).Into(t, &out)
	if fmt.Sprint(out.Stays) != stays {
		t.Errorf("%+v", out)
	}
	var now Toy
	if b.Get(t, path).Into(t, &now); now.Count != 3 || len(now.Tags) != 1 {
		t.Errorf("%+v", now)
	}
	var sealed []byte
	if err := b.DB.QueryRow(t.Context(), `SELECT secret FROM toys`).Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	if plain, err := b.Secrets.Open(sealed, "toys", "secret", toy.ID.String()); err != nil || plain != "second-canary" {
		t.Errorf("%q %v", plain, err)
	}
	// A deleted row comes back with all its fields.
	at = time.Now().UTC().Format(time.RFC3339Nano)
	b.Do(t, "admin", http.MethodDelete, path, nil).Want(t, 200)
	b.Do(t, "admin", http.MethodPost, "/configuration/revert", map[string]any{"at": at}).Want(t, 200)
	if b.Get(t, path).Want(t, 200).Into(t, &now); len(now.Tags) != 1 || !now.SecretConfigured {
		t.Errorf("%+v", now)
	}
}
