package licorne

import (
	"math/rand/v2"
	"time"
)

// longest is how long a client stays away at the most, whatever a server tells it: one changed byte
// could mean weeks.
const longest = 5 * time.Minute

// backoff says how long to wait before the next try to connect: a random time below three quarters of
// a ceiling that doubles with every failure. The chance keeps a thousand clients of one restarted
// server from coming back together. With the default ceilings the longest wait is 1.5 s, which leaves
// half a second to connect: a server that is back is joined within 2 s.
type backoff struct {
	retry   Retry
	ceiling time.Duration
}

func newBackoff(retry Retry) *backoff { return &backoff{retry: retry, ceiling: retry.Initial} }

// lasted notes the end of a stream, and how long it lasted after its welcome. The welcome has taken the
// ceiling back to the start, unless the stream was lost too soon. Otherwise a server that welcomes and
// drops its clients would be overrun by them.
func (b *backoff) lasted(d time.Duration) {
	if d >= b.retry.Stable {
		b.reset()
	}
}

// reset takes the ceiling back to the start.
func (b *backoff) reset() { b.ceiling = b.retry.Initial }

// next is how long to wait before the next try.
func (b *backoff) next() time.Duration { return b.below(b.retry.Maximum) }

// nextExhausted is the same after an answer that the server has no room. That server is there already,
// so its last ceiling is higher.
func (b *backoff) nextExhausted() time.Duration {
	return b.below(max(b.retry.Maximum, b.retry.Exhausted))
}

func (b *backoff) below(maximum time.Duration) time.Duration {
	ceiling := min(maximum, b.ceiling)
	b.ceiling = min(maximum, 2*ceiling)
	return rand.N(ceiling - ceiling/4 + 1)
}

// told is how long to wait if the server has asked for d: never less, and up to half more.
func (b *backoff) told(d time.Duration) time.Duration {
	d = min(d, longest)
	return d + rand.N(d/2+1)
}
