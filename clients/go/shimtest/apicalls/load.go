package apicalls

import "sync"

// Load counts the calls that wait or are under way.
type Load struct {
	mu    sync.Mutex
	fell  sync.Cond
	calls int
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
	l.mu.Unlock()
	l.fell.Broadcast()
}

// Settle waits until there are no more than so many calls.
func (l *Load) Settle(calls int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.calls > calls {
		l.fell.Wait()
	}
}
