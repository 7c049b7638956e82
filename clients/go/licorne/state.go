package licorne

import (
	"log/slog"
	"sync"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// ackEvery is the number of processed responses that are acknowledged at once. Fewer wait for ackDelay.
const ackEvery = 64

// state is the state of a client that outlives its streams. Its lock guards everything except the channels.
// No goroutine waits for handlers or the network while it holds the lock.
type state struct {
	mu      sync.Mutex
	log     *slog.Logger
	session session
	cache   *cache
	out     outgoing
	inbox   inbox
	stats   Stats
	// address is the address of the current stream or attempt.
	address string
	// wake signals to the stream's writer that it may have something to send.
	wake chan struct{}
	// ready is closed at the end of the first replay, and at the end of the client.
	ready chan struct{}
	// leaving is closed when the caller ends the client.
	leaving chan struct{}
	// unregister is true if the goodbye asks the server to remove the RM.
	unregister bool
	// told is true if the goodbye of the closing client has reached the server, and forgotten if that goodbye
	// asked the server to remove the RM.
	told, forgotten bool
	// failure is the error that every call returns after the end; nil before.
	failure error
	// abort cancels the connection; nil without a connection.
	abort func()
}

func newState(config Config, log *slog.Logger) *state {
	s := &state{
		log:     log,
		cache:   newCache(config.RMID),
		wake:    make(chan struct{}, 1),
		ready:   make(chan struct{}),
		leaving: make(chan struct{}),
	}
	s.out.limit = config.Limits.OutgoingBytes
	s.out.window.length = *config.JoinWindow
	s.out.room = sync.NewCond(&s.mu)
	s.inbox.limit = config.Limits.IncomingItems
	s.inbox.changed = sync.NewCond(&s.mu)
	s.session.keepBytes = config.Limits.ResendBytes
	return s
}

// wakeWriter wakes the writer. It never blocks.
func (s *state) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// update applies a change of the caller: note puts it into the cache and, if there is a session, into the
// queue. It waits while too much is queued. It returns the error that has ended the client, if it has ended.
func (s *state) update(note func(queue *packer)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return s.failure
	}
	if !s.out.open {
		// The next replay sends all items of the cache.
		note(nil)
		return nil
	}
	note(&s.out.packer)
	if !s.out.held() {
		s.wakeWriter()
	}
	for s.out.packer.bytes > s.out.limit && s.failure == nil {
		if !s.out.streaming {
			// There is no stream to send the queued items. They are dropped, because the cache has them for a
			// replay.
			s.session.forget()
			s.out.close()
			return nil
		}
		s.inbox.callers++
		s.inbox.changed.Broadcast()
		s.out.room.Wait()
		s.inbox.callers--
	}
	return s.failure
}

// answer queues an answer to a check, unless the session of the check has ended. It returns false if a new
// session has begun since, whose replay was taken before the answer.
func (s *state) answer(at stamp, answer queuedAnswer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at != s.session.stamp {
		return false
	}
	if s.out.open {
		s.out.answers = append(s.out.answers, answer)
		s.wakeWriter()
	}
	return true
}

// dumped queues the answer to a requested state dump, unless its session has ended.
func (s *state) dumped(at stamp, dump *licornev1.StateDump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == s.session.stamp && s.out.open {
		s.out.dumps = append(s.out.dumps, dump)
		s.wakeWriter()
	}
}

// consumed records that the handlers have processed a delivery.
func (s *state) consumed(d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.done(d)
	if d.number == 0 {
		return
	}
	s.session.consume(d.at, d.number)
	// The first response starts the delay of the acknowledgement; a full batch ends it.
	if due := s.session.unacknowledged(); due == 1 || due == ackEvery {
		s.wakeWriter()
	}
}

// live records that the server schedules the RM. The lock is held.
func (s *state) live() {
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

// leave makes the stream send a goodbye after all queued requests, and prevents further streams. Without a
// stream it waits for nothing.
func (s *state) leave(unregister bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLeaving() || s.failure != nil {
		return
	}
	s.unregister = unregister
	close(s.leaving)
	s.out.seal()
	if s.abort != nil {
		if !s.out.streaming {
			s.abort()
		}
		time.AfterFunc(2*grace, s.abort)
	}
	s.wakeWriter()
}

func (s *state) isLeaving() bool {
	select {
	case <-s.leaving:
		return true
	default:
		return false
	}
}

// end ends the client permanently. Only the first call counts, with its reason.
func (s *state) end(failure error, last func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return
	}
	s.failure = failure
	if failure == nil {
		s.failure = ErrClosed
	}
	s.out.close()
	if last != nil {
		s.inbox.put(delivery{at: s.session.stamp, calls: []func(){last}})
	}
	s.inbox.close()
	s.live()
}
