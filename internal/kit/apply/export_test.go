package apply

import "time"

// SetTick makes the lanes look at their components at another pace. It is called before they run.
func (e *Engine) SetTick(d time.Duration) { e.tick = d }
