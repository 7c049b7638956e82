package running

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// played is a run of Turns in which each turn and each scan takes a time.
type played struct {
	*Turns
	begin time.Time
	turns []time.Duration
	scans []time.Duration
}

func play(t *testing.T, turn, scan, fixed time.Duration) (*played, func()) {
	p := &played{begin: time.Now()}
	p.Turns = NewTurns(
		func(string) {
			p.turns = append(p.turns, time.Since(p.begin))
			time.Sleep(turn)
		},
		func() {
			p.scans = append(p.scans, time.Since(p.begin))
			time.Sleep(scan)
		}, fixed)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	synctest.Wait()
	return p, func() {
		stop()
		<-ended
	}
}

// An application that is woken has its turn at once, and one for all wakes before that.
func TestWokenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := play(t, 0, 0, 0)
		defer stop()
		time.Sleep(300 * time.Millisecond)
		for range 100 {
			p.Wake("app")
		}
		synctest.Wait()
		if want := []time.Duration{300 * time.Millisecond}; !slices.Equal(p.turns, want) {
			t.Errorf("turns were at %v, not %v", p.turns, want)
		}
	})
}

// Turns of an application that is woken all the time take a fifth of the time.
func TestTurnsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := play(t, 20*time.Millisecond, 0, 0)
		defer stop()
		for range 10_000 {
			p.Wake("app")
			time.Sleep(time.Millisecond)
		}
		if count := len(p.turns); count < 95 || count > 101 {
			t.Errorf("there were %d turns of 20 ms in 10 s", count)
		}
	})
}

// Without wakes there are scans alone, once a second, or so rarely that they take a hundredth of the time.
func TestScans(t *testing.T) {
	for scan, want := range map[time.Duration]int{0: 60, 10 * time.Millisecond: 60, 100 * time.Millisecond: 6} {
		synctest.Test(t, func(t *testing.T) {
			p, stop := play(t, 0, scan, 0)
			defer stop()
			time.Sleep(59*time.Second + 900*time.Millisecond)
			if len(p.scans) != want || len(p.turns) != 0 {
				t.Errorf("a scan takes %v: there were %d scans and %d turns in a minute, not %d scans",
					scan, len(p.scans), len(p.turns), want)
			}
		})
	}
}

// A fixed interval is that of scans, and wakes have no effect.
func TestFixedInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := play(t, 0, 0, 10*time.Millisecond)
		defer stop()
		p.Wake("app")
		time.Sleep(995 * time.Millisecond)
		if len(p.scans) != 100 || len(p.turns) != 0 {
			t.Errorf("there were %d scans and %d turns in a second", len(p.scans), len(p.turns))
		}
	})
}
