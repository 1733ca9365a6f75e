package engine

import (
	"github.com/corazawaf/coraza/v3/experimental/plugins"

	"edge.internal/gateway/internal/waf/rx"
)

// Engines are built with the faster operator.
func init() { plugins.RegisterOperator("rx", rx.New) }
