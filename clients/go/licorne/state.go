package licorne

import (
	"log/slog"
	"sync"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// ackEvery responses that were dealt with are acknowledged without delay. Fewer wait for ackDelay.
const ackEvery = 64

// state is what outlives a stream. Its lock guards all of it but the channels. The handlers and the
// network are never waited for while it is held.
type state struct {
	mu      sync.Mutex
	log     *slog.Logger
	session session
	cache   *cache
	out     outgoing
	inbox   inbox
	stats   Stats
	// address is the one that is connected to.
	address string
	// wake tells the writer of the stream that it may have something to do.
	wake chan struct{}
	// ready is closed at the end of the first replay, and at the end of the client.
	ready chan struct{}
	// leaving is closed when the caller ends the client.
	leaving chan struct{}
	// unregister says whether the goodbye asks the server to forget the RM.
	unregister bool
	// told says whether the server has heard the goodbye of the closing client, and forgotten whether
	// that has asked it to forget the RM.
	told, forgotten bool
	// failure is what every call returns after the end; nil before.
	failure error
	// abort breaks off whatever the connection does; nil without one.
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

// wakeWriter makes the writer look for work. It never blocks.
func (s *state) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// update runs a change of the caller: `note` puts it into the cache and, if there is a session, into
// the queue. It returns what has ended the client, if something has. It waits while too much is
// queued.
func (s *state) update(note func(queue *packer)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return s.failure
	}
	if !s.out.open {
		// The replay of the next session takes all from the cache.
		note(nil)
		return nil
	}
	note(&s.out.packer)
	if !s.out.held() {
		s.wakeWriter()
	}
	for s.out.packer.bytes > s.out.limit && s.failure == nil {
		if !s.out.streaming {
			// No stream takes what is queued. The cache has everything, so the queue is given up for
			// a replay.
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

// answer queues an answer to a check, unless the session that asked has ended: nobody
// waits for it then. It returns false if another session has begun since, whose replay was taken
// before the answer.
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

// dumped queues the answer to a wanted state dump, as `answer` does.
func (s *state) dumped(at stamp, dump *licornev1.StateDump) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == s.session.stamp && s.out.open {
		s.out.dumps = append(s.out.dumps, dump)
		s.wakeWriter()
	}
}

// consumed notes that the handlers have dealt with a delivery.
func (s *state) consumed(d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inbox.done(d)
	if d.number == 0 {
		return
	}
	s.session.consume(d.at, d.number)
	// The first response starts the delay of the acknowledgement, the last one of many ends it.
	if due := s.session.unacknowledged(); due == 1 || due == ackEvery {
		s.wakeWriter()
	}
}

// live notes that the RM is scheduled. The lock is held.
func (s *state) live() {
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

// leave makes the stream say goodbye when all that is queued now is sent, and opens no further one. Without a
// stream nothing is waited for.
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

// end notes that there will be no further stream. The first call counts, with its reason.
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
