package running

import (
	"context"
	"sync"
	"time"

	"licorne.dev/clients/go/shimtest/due"
)

const (
	// scanInterval is how often all applications have their turn, whether or not something woke them.
	scanInterval = time.Second
	// scanRest is how many times as long as a scan took the next one is waited for at the least, so that a
	// large idle cluster costs a hundredth of a processor.
	scanRest = 100
	// turnRest is the same for the turns of one application. A turn looks at all pods of the application.
	turnRest = 4
	// all is the key of a scan. No application has it.
	all = ""
)

// Turns says when which application has its turn: at once when it is woken, but so that the turns of one
// application take a fifth of a processor at the most, and at the latest with the next scan.
type Turns struct {
	work  *due.Work[string]
	turn  func(application string)
	scan  func()
	fixed time.Duration

	mu    sync.Mutex
	rests map[string]time.Time // until when applications rest that had a turn lately
}

// NewTurns has what a turn does, and what a scan of all applications does. A fixed interval other than 0 is
// that of scans, and nothing is woken then.
func NewTurns(turn func(application string), scan func(), fixed time.Duration) *Turns {
	return &Turns{work: due.New[string](), turn: turn, scan: scan, fixed: fixed, rests: map[string]time.Time{}}
}

// Wake gives an application a turn soon. Wakes before that turn are joined.
func (t *Turns) Wake(application string) {
	if t.fixed == 0 && application != all {
		t.work.Put(application, t.rested(application))
	}
}

// rested is when an application may have its next turn.
func (t *Turns) rested(application string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rests[application]
}

// Run gives turns until the context ends, one after the other.
func (t *Turns) Run(ctx context.Context) {
	t.work.Put(all, time.Now())
	t.work.Run(ctx, func(application string) {
		begin := time.Now()
		if application == all {
			t.scan()
			t.afterScan(begin, time.Now())
			return
		}
		// It may have been woken in the middle of its last turn, when the end of that was not known.
		if rested := t.rested(application); rested.After(begin) {
			t.work.Put(application, rested)
			return
		}
		t.turn(application)
		end := time.Now()
		t.mu.Lock()
		t.rests[application] = end.Add(turnRest * end.Sub(begin))
		t.mu.Unlock()
	})
}

func (t *Turns) afterScan(begin, end time.Time) {
	t.mu.Lock()
	for application, rest := range t.rests {
		if rest.Before(end) {
			delete(t.rests, application)
		}
	}
	t.mu.Unlock()
	if t.fixed != 0 {
		t.work.Put(all, end.Add(t.fixed))
		return
	}
	t.work.Put(all, end.Add(max(scanInterval, scanRest*end.Sub(begin))))
}
