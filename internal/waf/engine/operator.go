package engine

import (
	"github.com/corazawaf/coraza/v3/experimental/plugins"

	"edge.internal/gateway/internal/waf/rx"
)

// Engines use the faster operator, and one that spares rules.
func init() {
	plugins.RegisterOperator("rx", rx.New)
	plugins.RegisterOperator(sparing, newSparing)
}
