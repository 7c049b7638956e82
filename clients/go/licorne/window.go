package licorne

import "time"

const (
	// maxJoinWindow is the longest window, and the usual one. It is short beside the deadline of any
	// predicate check.
	maxJoinWindow = 2 * time.Millisecond
	// busy is how many items in one request, or requests that the server has not processed, begin a
	// window. An RM that waits for the answer to one ask before it makes the next never has as many
	// under way.
	busy = 8
)

// joinWindow keeps requests apart while many items are on their way. A request that shows no load opens
// no window: what comes next is sent at once. So one ask at a time never waits.
type joinWindow struct {
	// length is 0 if nothing ever waits.
	length time.Duration
	until  time.Time
}

// sent notes a request with so many items that is sent now, behind so many unprocessed ones.
func (w *joinWindow) sent(items int, unprocessed uint64, now time.Time) {
	w.until = now
	if items >= busy || unprocessed >= busy {
		w.until = now.Add(w.length)
	}
}

// left is how long the next request should wait for more items; 0 to send it now.
func (w *joinWindow) left(now time.Time) time.Duration { return max(0, w.until.Sub(now)) }
