// Command gateway-ctl helps on the box itself.
package main

import (
	"context"

	"edge.internal/gateway/internal/app"
)

func main() {
	app.Main(func(ctx context.Context) error {
		if err := app.ReadSettings(); err != nil {
			return err
		}
		return app.Ctl().ExecuteContext(ctx)
	})
}
