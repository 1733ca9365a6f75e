package tunnel_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"edge.internal/gateway/internal/tunnel"
)

// Rows are not validated again when they are read. Items that are no longer valid are left out.
func TestItemsOfAnotherFormAreLeftOut(t *testing.T) {
	stored := func(into interface{ ScanText(pgtype.Text) error }, text string) {
		if err := into.ScanText(pgtype.Text{String: text, Valid: true}); err != nil {
			t.Fatal(err)
		}
	}
	var (
		networks  tunnel.Networks
		addresses tunnel.Addresses
		resolvers tunnel.Resolvers
	)
	stored(&networks, "10.0.0.0/8,nonsense,fd00::/8")
	stored(&addresses, "10.8.0.1/24,nonsense")
	stored(&resolvers, "nonsense,10.8.0.1")
	if got := fmt.Sprint(networks.List(), addresses.List(), addresses.Networks(), resolvers.List()); got != "[10.0.0.0/8 fd00::/8] [10.8.0.1/24] [10.8.0.0/24] [10.8.0.1]" {
		t.Error(got)
	}
}
