package licorne

import (
	"math/rand/v2"
	"time"
)

// backoff says how long to wait before the next try to connect: a random time below a ceiling that
// doubles with every failure. The chance keeps a thousand clients of one restarted server from
// coming back together.
type backoff struct {
	retry   Retry
	ceiling time.Duration
}

func newBackoff(retry Retry) *backoff { return &backoff{retry: retry, ceiling: retry.Initial} }

// lasted notes that a connection has ended. A short one counts as a failure, so that a server that
// drops its clients is not overrun by them.
func (b *backoff) lasted(d time.Duration) {
	if d >= b.retry.Stable {
		b.reset()
	}
}

// reset takes the ceiling back to the start.
func (b *backoff) reset() { b.ceiling = b.retry.Initial }

// next is how long to wait before the next try.
func (b *backoff) next() time.Duration {
	wait := rand.N(b.ceiling + 1)
	b.ceiling = min(b.retry.Maximum, 2*b.ceiling)
	return wait
}
