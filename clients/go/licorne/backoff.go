package licorne

import (
	"math/rand/v2"
	"time"
)

// longest is the longest wait that a server can request, because one corrupted byte could request weeks.
// Longer requests are cut.
const longest = 5 * time.Minute

// backoff determines the wait before the next attempt to connect: a random time below three quarters of a
// ceiling that doubles with every failure. The jitter spreads the connections of many clients to a restarted
// server. With the default ceilings the longest wait is 1.5 s, which leaves half a second to connect: clients
// return within 2 s after the server does.
type backoff struct {
	retry   Retry
	ceiling time.Duration
}

func newBackoff(retry Retry) *backoff { return &backoff{retry: retry, ceiling: retry.Initial} }

// lasted records the end of a stream that lasted for d after its welcome. The ceiling is reset unless the
// stream was too short: otherwise clients would overrun a server that welcomes and then drops them.
func (b *backoff) lasted(d time.Duration) {
	if d >= b.retry.Stable {
		b.reset()
	}
}

// reset resets the ceiling to the first one.
func (b *backoff) reset() { b.ceiling = b.retry.Initial }

// next returns the wait before the next attempt.
func (b *backoff) next() time.Duration { return b.below(b.retry.Maximum) }

// nextExhausted returns the wait after the server reported a lack of capacity. The highest ceiling is then
// higher, because the server is running.
func (b *backoff) nextExhausted() time.Duration {
	return b.below(max(b.retry.Maximum, b.retry.Exhausted))
}

func (b *backoff) below(maximum time.Duration) time.Duration {
	ceiling := min(maximum, b.ceiling)
	b.ceiling = min(maximum, 2*ceiling)
	return rand.N(ceiling - ceiling/4 + 1)
}

// told returns the wait if the server requests d: between 1 and 1.5 times as long, at random.
func (b *backoff) told(d time.Duration) time.Duration {
	d = min(d, longest)
	return d + rand.N(d/2+1)
}
