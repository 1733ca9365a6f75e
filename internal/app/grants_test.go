package app

import (
	"testing"

	"edge.internal/gateway/internal/kit/db/dbtest"
)

// A role that is created after the database was attached gets its privileges, too, and from the owner of the tables.
func TestRightsComeLater(t *testing.T) {
	d, server := dbtest.Own(t)
	if all, err := grant(t.Context(), d); all || err != nil {
		t.Fatalf("%v, %v", all, err)
	}
	given := make(chan error, 1)
	go func() { given <- grantLater(t.Context(), d) }()
	if err := server.CreateRole(t.Context(), "gateway-waf"); err != nil {
		t.Fatal(err)
	}
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	var may bool
	if err := d.QueryRow(t.Context(), "SELECT has_table_privilege('gateway-waf', 'waf_configs', 'SELECT') AND has_table_privilege('gateway-waf', 'waf_alerts', 'INSERT')").Scan(&may); err != nil || !may {
		t.Errorf("%v, %v", may, err)
	}
	if all, err := grant(t.Context(), d); !all || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}
