package due

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Keys are done in order of their times, each once, and only when they are due.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		work := New[string]()
		work.Put("late", begin.Add(3*time.Second))
		work.Put("dropped", begin.Add(2*time.Second))
		work.Put("early", begin.Add(time.Second))
		work.Put("early", begin.Add(5*time.Second))
		work.Drop("dropped")
		work.Drop("never put")
		var done []string
		var at []time.Duration
		ctx, stop := context.WithCancel(t.Context())
		go work.Run(ctx, func(key string) {
			done = append(done, key)
			at = append(at, time.Since(begin))
		})
		time.Sleep(10 * time.Second)
		stop()
		synctest.Wait()
		if want := []string{"early", "late"}; !slices.Equal(done, want) {
			t.Errorf("%v was done, not %v", done, want)
		}
		if want := []time.Duration{time.Second, 3 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("it was done at %v, not %v", at, want)
		}
		if work.Len() != 0 {
			t.Errorf("%d keys are left", work.Len())
		}
	})
}

// A key that comes while others are waited for is done at its own time, and may put itself again.
func TestEarlierKeyAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		work := New[int]()
		work.Put(1, begin.Add(time.Hour))
		var at []time.Duration
		ctx, stop := context.WithCancel(t.Context())
		go work.Run(ctx, func(key int) {
			at = append(at, time.Since(begin))
			if len(at) < 3 {
				work.Put(key, time.Now().Add(time.Second))
			}
		})
		synctest.Wait()
		work.Put(1, begin.Add(time.Second))
		time.Sleep(time.Minute)
		stop()
		synctest.Wait()
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("it was done at %v, not %v", at, want)
		}
	})
}
