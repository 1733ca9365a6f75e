package backup

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// frugalBytes is what a backup, a proof or an upload may take on top of what the program has. The program lets garbage pile up for the sake
// of its answers; these render a whole gateway, and no one waits for them.
const frugalBytes = 40 << 20

// frugal bounds the program's memory until its end is called. Only one thing is done at a time, so that bounds do not overlap.
func frugal() (end func()) {
	was := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(was, taken()+frugalBytes))
	return func() { debug.SetMemoryLimit(was) }
}

// taken is the memory that the program has from the system.
func taken() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return int64(min(sample[0].Value.Uint64()-sample[1].Value.Uint64(), math.MaxInt64/2))
}
