package apicalls

import (
	"context"
	"sync"
	"time"
)

// busyLook is the time between two checks of the number of calls.
const busyLook = 50 * time.Millisecond

// Load counts waiting and running calls.
type Load struct {
	mu    sync.Mutex
	calls int
	ended time.Time // end of the last call
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

// Settle waits until there were no calls for the duration while, or, from the time latest on, until there are at most
// so many calls; or until the context ends.
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

// rest returns the wait before the next check; zero or less if the load has settled.
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
