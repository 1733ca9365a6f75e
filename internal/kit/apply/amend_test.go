package apply_test

import (
	"context"
	"testing"

	"edge.internal/gateway/internal/kit/apply"
	"edge.internal/gateway/internal/kit/conf/nft"
	"edge.internal/gateway/internal/kit/db"
	"edge.internal/gateway/internal/kit/db/dbtest"
	"edge.internal/gateway/internal/kit/host"
	"edge.internal/gateway/internal/kit/host/daemon/nftables"
	"edge.internal/gateway/internal/kit/kittest"
	"edge.internal/gateway/internal/kit/waittest"
)

// A file in parts is changed part by part as long as its content is known, and always equals the whole rendering.
func TestPartsAreChangedAlone(t *testing.T) {
	x := kittest.New(t)
	dbtest.Exec(t, x.DB, `CREATE TABLE toy_lines (line text NOT NULL)`)
	table := func(lines []string) string {
		text := "table inet gateway\ndelete table inet gateway\ntable inet gateway {\n"
		for _, line := range lines {
			text += "\tchain " + line + " {\n\t}\n"
		}
		return text + "}\n"
	}
	apply.Register(x.Engine, apply.Component[[]string]{
		ID: apply.PacketFilter, Load: (&toy{}).load, Atomic: true,
		Render: func(lines []string) ([]host.File, error) {
			text, err := nft.Split(nftables.Name, table(lines))
			return []host.File{{Place: nftables.Table, Parts: text}}, err
		},
		Check:  func(context.Context, []host.File) error { return nil },
		Apply:  func(context.Context, []string, []host.File) error { return nil },
		Verify: func(context.Context, []string, []host.File) error { return nil },
	})
	x.Start(t)
	lines := []string{}
	add := func(line string) {
		t.Helper()
		o, err := x.Engine.Commit(t.Context(), []apply.ID{apply.PacketFilter}, func(tx *db.Tx) ([]apply.Row, error) {
			_, err := tx.Exec(t.Context(), `INSERT INTO toy_lines VALUES ($1)`, line)
			return nil, err
		})
		lines = append(lines, line)
		content, readErr := x.Machine.Read(nftables.Table)
		if err != nil || o[apply.PacketFilter] != apply.Live || readErr != nil || string(content) != table(lines) {
			t.Fatalf("%v %v %v\n%s", o, err, readErr, content)
		}
	}
	waittest.Until(t, "the first apply", func() bool { return x.Engine.Statuses()[0].State == apply.Live })
	for n, line := range []string{"a", "b", "c"} {
		add(line)
		if amends := x.Machine.Amends(nftables.Table); amends != n+1 {
			t.Fatalf("%s: %d changes of parts", line, amends)
		}
	}
	// A foreign file is replaced as a whole.
	x.Machine.SetFile(nftables.Table, table([]string{"x"}))
	add("d")
	if amends, installs := x.Machine.Amends(nftables.Table), x.Machine.Installs(nftables.Table); amends != 3 || installs != 5 {
		t.Fatalf("%d changes of parts, %d writes", amends, installs)
	}
	add("e")
	if amends := x.Machine.Amends(nftables.Table); amends != 4 {
		t.Fatalf("%d changes of parts", amends)
	}
	// A file that someone has edited is restored as a whole.
	x.Machine.SetFile(nftables.Table, "else")
	x.Engine.Refresh(t.Context(), apply.PacketFilter, false)
	if content, err := x.Machine.Read(nftables.Table); err != nil || string(content) != table(lines) {
		t.Fatalf("%v\n%s", err, content)
	}
}
