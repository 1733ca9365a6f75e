package resource_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/fault"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/resource"
)

type Door struct {
	resource.Meta
	Name string `json:"name" required:"true"`
}

func TestPreviewNamesWhatAChangeAffects(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE doors (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL);
		SELECT change_keep('doors', 'id', 'shared')`)
	kind := resource.Kind[Door]{Name: "door", Title: "door", Path: "/doors", Table: "doors", Feeds: []apply.ID{apply.NTP}}
	kind.Mount(b.Resources)
	load := func(ctx context.Context, q db.Querier) (n int, err error) {
		list, err := kind.All(ctx, q)
		return len(list), err
	}
	compared := 0
	assess := func(area resource.Area, feed apply.ID, compare func(ctx context.Context, was, now int) (int, []resource.Affected, error)) {
		resource.Assess(b.Resources, resource.Assessor[int]{Area: area, Feeds: []apply.ID{apply.DNS, feed}, Load: load, Compare: compare})
	}
	assess(resource.Connections, apply.NTP, func(_ context.Context, was, now int) (int, []resource.Affected, error) {
		compared++
		var list []resource.Affected
		for n := range 25 {
			effect := []resource.Effect{resource.Blocked, resource.Cut, resource.Rerouted}[n%3]
			list = append(list, resource.Affected{What: fmt.Sprint(n), Effect: effect, Before: fmt.Sprint(was), After: fmt.Sprint(now)})
		}
		return 412, list, nil
	})
	assess(resource.Sites, apply.NTP, func(context.Context, int, int) (int, []resource.Affected, error) {
		return 3, nil, fault.New(fault.Unavailable, "The proxy does not answer.")
	})
	assess(resource.TunnelPeers, apply.NTP, func(context.Context, int, int) (int, []resource.Affected, error) {
		return 3, nil, errors.New("a secret of the program")
	})
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	assess(resource.DHCPClients, apply.NTP, func(context.Context, int, int) (int, []resource.Affected, error) {
		<-forever
		return 0, nil, nil
	})
	assess("others", apply.ForwardProxy, func(context.Context, int, int) (int, []resource.Affected, error) {
		t.Error("not fed, and assessed")
		return 0, nil, nil
	})
	b.Resources.MountChangeSets()
	b.Start(t)
	var out struct{ Impact []resource.Impact }
	look := func(before, after string) {
		t.Helper()
		if len(out.Impact) != 4 {
			t.Fatalf("%+v", out)
		}
		x := out.Impact[0]
		if x.Area != resource.Connections || !x.Computed || x.Why != "" || x.Checked != 412 || x.Count != 25 || len(x.First) != 20 ||
			!slices.Equal(x.Effects, []resource.EffectCount{{Effect: resource.Cut, Count: 8}, {Effect: resource.Rerouted, Count: 8}, {Effect: resource.Blocked, Count: 9}}) {
			t.Errorf("%+v", x)
		}
		// The worst come first. Each was assessed before and after the change, in its transaction.
		if x.First[0] != (resource.Affected{What: "1", Effect: resource.Cut, Before: before, After: after}) || x.First[8].Effect != resource.Rerouted {
			t.Errorf("%+v", x.First)
		}
		for i, why := range []string{"The proxy does not answer.", "It could not be worked out.", "It would take longer than 2 seconds."} {
			if x := out.Impact[i+1]; x.Computed || x.Why != why || x.Count != 0 || x.Checked != 0 || x.First == nil {
				t.Errorf("%+v", x)
			}
		}
	}
	set := `{"preview":%t,"operations":[{"kind":"door","verb":"create","body":{"name":"a"}}]}`
	b.Do(t, "viewer", http.MethodPost, "/change-sets", fmt.Sprintf(set, true)).Want(t, 200).Into(t, &out)
	look("0", "1")
	b.Do(t, "admin", http.MethodPost, "/change-sets", fmt.Sprintf(set, false)).Want(t, 200).Into(t, &out)
	if len(out.Impact) != 0 || compared != 1 {
		t.Errorf("a change that is made is assessed: %+v", out)
	}
	var history []struct{ ID string }
	b.Do(t, "admin", http.MethodGet, "/change-sets", nil).Want(t, 200).Into(t, &history)
	revert := "/change-sets/" + history[0].ID + "/revert"
	b.Do(t, "admin", http.MethodPost, revert, `{"preview":true}`).Want(t, 200).Into(t, &out)
	look("1", "0")
	b.Do(t, "admin", http.MethodPost, revert, `{}`).Want(t, 200)
	if compared != 2 {
		t.Error("a revert that is made is assessed")
	}
}

// An area that a kind declares unforeseen is never reported as unaffected, whether it was assessed or not.
func TestPreviewNamesUnforeseenAreas(t *testing.T) {
	b := kittest.New(t)
	dbtest.Exec(t, b.DB, `CREATE TABLE doors (id uuid PRIMARY KEY, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, name text NOT NULL);
		SELECT change_keep('doors', 'id', 'shared')`)
	kind := resource.Kind[Door]{
		Name: "door", Title: "door", Path: "/doors", Table: "doors", Feeds: []apply.ID{apply.NTP},
		Unforeseen: map[resource.Area]string{resource.Connections: "Who comes in is not known.", resource.Sites: "Who goes out is not known."},
	}
	kind.Mount(b.Resources)
	resource.Assess(b.Resources, resource.Assessor[int]{
		Area: resource.Sites, Feeds: []apply.ID{apply.NTP}, Load: func(context.Context, db.Querier) (int, error) { return 0, nil },
		Compare: func(context.Context, int, int) (int, []resource.Affected, error) { return 7, nil, nil },
	})
	b.Resources.MountChangeSets()
	b.Start(t)
	var door Door
	b.Do(t, "admin", http.MethodPost, "/doors", `{"name":"a"}`).Want(t, 201).Into(t, &door)
	for name, want := range map[string]string{
		"a": "[{sites true  7 0 [] []}]",
		"b": "[{sites false Who goes out is not known. 0 0 [] []} {connections false Who comes in is not known. 0 0 [] []}]",
	} {
		var out struct{ Impact []resource.Impact }
		set := fmt.Sprintf(`{"preview":true,"operations":[{"kind":"door","verb":"update","id":%q,"body":{"name":%q}}]}`, door.ID, name)
		b.Do(t, "viewer", http.MethodPost, "/change-sets", set).Want(t, 200).Into(t, &out)
		if got := fmt.Sprint(out.Impact); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
