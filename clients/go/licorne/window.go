package licorne

import "time"

const (
	// maxJoinWindow is the longest window, and the default. It is short compared with the deadline of a
	// predicate check.
	maxJoinWindow = 2 * time.Millisecond
	// busy is the number of items in one request, or of unprocessed requests, from which a window begins. An
	// RM that waits for each answer before its next ask never reaches it.
	busy = 8
)

// joinWindow delays requests while the server has a backlog. Without load there is no window, so single asks
// are sent at once.
type joinWindow struct {
	// length is the length of a window; 0 if no request ever waits.
	length time.Duration
	until  time.Time
}

// sent records that a request with so many items is sent now, after so many unprocessed ones.
func (w *joinWindow) sent(items int, unprocessed uint64, now time.Time) {
	w.until = now
	if items >= busy || unprocessed >= busy {
		w.until = now.Add(w.length)
	}
}

// left returns how long the next request should wait for more items; 0 to send it now.
func (w *joinWindow) left(now time.Time) time.Duration { return max(0, w.until.Sub(now)) }
