package apply

import "time"

// SetTick changes how often lanes check their components. It must be called before Run.
func (e *Engine) SetTick(d time.Duration) { e.tick = d }
