package apicalls

import (
	"context"
	"sync"
	"time"
)

// busyLook is the pause between two looks at the number of calls.
const busyLook = 50 * time.Millisecond

// Load counts the calls that wait or are under way.
type Load struct {
	mu    sync.Mutex
	calls int
	ended time.Time // the last one
}

func (l *Load) enter() {
	l.mu.Lock()
	l.calls++
	l.mu.Unlock()
}

func (l *Load) leave() {
	l.mu.Lock()
	l.calls--
	l.ended = time.Now()
	l.mu.Unlock()
}

// Settle waits until there were no calls for a while, or from the latest time on until there are no more than so many;
// or until the context ends.
func (l *Load) Settle(ctx context.Context, calls int, while time.Duration, latest time.Time) {
	for ctx.Err() == nil {
		rest := l.rest(calls, while, latest)
		if rest <= 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// rest is how long to wait before the next look; zero or less if it has settled.
func (l *Load) rest(calls int, while time.Duration, latest time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.calls > calls:
		return busyLook
	case l.calls > 0:
		return min(while, time.Until(latest))
	}
	return min(while-time.Since(l.ended), time.Until(latest))
}
