package engine

import (
	"github.com/corazawaf/coraza/v3/experimental/plugins"

	"edge.internal/gateway/internal/waf/rx"
)

// Engines are built with the faster operator, and with one that spares others.
func init() {
	plugins.RegisterOperator("rx", rx.New)
	plugins.RegisterOperator(sparing, newSparing)
}
