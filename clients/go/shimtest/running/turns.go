package running

import (
	"context"
	"sync"
	"time"

	"licorne.dev/clients/go/shimtest/due"
)

const (
	// scanInterval is the time between two scans, which are turns of all applications.
	scanInterval = time.Second
	// scanRest is the minimum pause after a scan as a multiple of its duration, so that a large idle cluster costs
	// a hundredth of a processor.
	scanRest = 100
	// turnRest is the same for the turns of one application, each of which examines all its pods.
	turnRest = 4
	// all is the key of a scan, which is no application id.
	all = ""
)

// Turns schedules the turns of applications: at once after a wake, but so that the turns of one application take at
// most a fifth of a processor, and at the latest with the next scan.
type Turns struct {
	work  *due.Work[string]
	turn  func(application string)
	scan  func()
	fixed time.Duration

	mu    sync.Mutex
	rests map[string]time.Time // the end of the pause after an application's last turn
}

// NewTurns returns Turns with the functions for a turn and for a scan. With a fixed interval other than 0 there are
// only scans, at this interval.
func NewTurns(turn func(application string), scan func(), fixed time.Duration) *Turns {
	return &Turns{work: due.New[string](), turn: turn, scan: scan, fixed: fixed, rests: map[string]time.Time{}}
}

// Wake schedules a turn of an application. Further wakes before that turn have no effect.
func (t *Turns) Wake(application string) {
	if t.fixed == 0 && application != all {
		t.work.Put(application, t.rested(application))
	}
}

// rested returns the time from which an application may have its next turn.
func (t *Turns) rested(application string) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rests[application]
}

// Run runs turns until the context ends, one after another.
func (t *Turns) Run(ctx context.Context) {
	t.work.Put(all, time.Now())
	t.work.Run(ctx, func(application string) {
		begin := time.Now()
		if application == all {
			t.scan()
			t.afterScan(begin, time.Now())
			return
		}
		// It may have been woken during its last turn, before the end of the turn was known.
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
