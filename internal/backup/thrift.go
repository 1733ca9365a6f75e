package backup

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
)

// frugalBytes is how much memory a backup, a proof or an upload may use beyond what the program has. The program lets garbage pile up to
// answer fast; these render a whole gateway, and nobody waits for them.
const frugalBytes = 40 << 20

// frugal limits the program's memory until end is called. Only one operation runs at a time, so limits never overlap.
func frugal() (end func()) {
	was := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(min(was, taken()+frugalBytes))
	return func() { debug.SetMemoryLimit(was) }
}

// taken returns the memory that the program has from the system.
func taken() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return int64(min(sample[0].Value.Uint64()-sample[1].Value.Uint64(), math.MaxInt64/2))
}
