package apicalls

import (
	"sync"
	"time"
)

// Load counts the calls that wait or are under way.
type Load struct {
	mu    sync.Mutex
	fell  sync.Cond
	calls int
	ended time.Time // the last one
}

func newLoad() *Load {
	l := &Load{}
	l.fell.L = &l.mu
	return l
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
	l.fell.Broadcast()
}

// Settle waits until there were no calls for a while, or from the latest time on until there are no more than so many.
func (l *Load) Settle(calls int, while time.Duration, latest time.Time) {
	for {
		rest := min(l.rest(calls, while), time.Until(latest))
		if rest <= 0 {
			return
		}
		time.Sleep(rest)
	}
}

// rest waits until there are no more than so many calls, and says for how long there must be none from then on.
func (l *Load) rest(calls int, while time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.calls > calls {
		l.fell.Wait()
	}
	if l.calls > 0 {
		return while
	}
	return while - time.Since(l.ended)
}
