package licorne

import (
	"runtime"
	"time"

	"licorne.dev/clients/go/licornev1"
)

// ackDelay is the time after which fewer than ackEvery processed responses are acknowledged.
const ackDelay = 50 * time.Millisecond

// write sends the replay or the repeated requests, then queued requests, until a goodbye or the end of the
// stream.
func (st *stream) write() error {
	if err := st.writeReplay(); err != nil {
		return err
	}
	for _, repeat := range st.repeats {
		if err := st.repeat(repeat); err != nil {
			return err
		}
	}
	st.repeats = nil
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timedOut := false
	for {
		request, last, hold := st.next(timedOut)
		if request == nil {
			over := false
			if timedOut, over = st.idle(timer, hold); over {
				return nil
			}
			continue
		}
		timedOut = false
		if err := st.call.Send(request); err != nil {
			return err
		}
		if last {
			st.goodbyeSaid.Store(true)
			return st.call.CloseSend()
		}
	}
}

func (st *stream) writeReplay() error {
	if st.replay == nil {
		return nil
	}
	s := st.state
	err := st.replay.each(st.maxItems, func(b *batch) error {
		s.mu.Lock()
		s.sending(b)
		s.mu.Unlock()
		return st.call.Send(b.request)
	})
	if err == nil {
		st.replay = nil
	}
	return err
}

// sending numbers and counts a request that is about to be written. The lock is held.
func (s *state) sending(b *batch) {
	s.session.send(b)
	s.stats.Sent++
	s.stats.SentItems += uint64(b.items)
}

func (st *stream) repeat(b *batch) error {
	s := st.state
	s.mu.Lock()
	s.session.acknowledge(b.request)
	s.stats.Sent++
	s.mu.Unlock()
	return st.call.Send(b.request)
}

// next returns the request to send next; nil if there is none, or if it is held for more items for the
// duration hold. After a timeout it is at least an acknowledgement or a heartbeat. The last request is a
// goodbye, which is sent after all sealed requests.
func (st *stream) next(timedOut bool) (request *licornev1.UpdateRequest, last bool, hold time.Duration) {
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	ending := (s.isLeaving() || st.drained.Load() >= 0) && s.out.packer.sealed == 0
	if !ending {
		now := time.Now()
		if hold = s.out.hold(now); hold > 0 {
			return nil, false, hold
		}
		if b := s.out.next(s.session.sent-s.session.processed, now); b != nil {
			s.sending(b)
			return b.request, false, 0
		}
	}
	owed := s.session.unacknowledged()
	switch {
	case ending:
		request, last = st.goodbye(), true
	case owed >= ackEvery || timedOut && owed > 0:
		request = &licornev1.UpdateRequest{Message: &licornev1.UpdateRequest_Ack{Ack: &licornev1.Ack{}}}
		s.session.acknowledge(request)
	case timedOut:
		heartbeat := &licornev1.UpdateRequest_Heartbeat{Heartbeat: &licornev1.Heartbeat{}}
		request = &licornev1.UpdateRequest{Message: heartbeat}
		s.session.acknowledge(request)
	default:
		return nil, false, 0
	}
	s.stats.Sent++
	return request, last, 0
}

// goodbye returns the last request of a stream. It is numbered, but never sent again.
func (st *stream) goodbye() *licornev1.UpdateRequest {
	st.unregistering = st.state.isLeaving() && st.state.unregister
	message := &licornev1.UpdateRequest_Goodbye{Goodbye: &licornev1.Goodbye{Unregister: st.unregistering}}
	request := &licornev1.UpdateRequest{Message: message}
	st.state.session.number(request)
	return request
}

// idle waits for something to send, or until the end of hold. It returns whether an acknowledgement or a
// heartbeat is due first, and whether the stream is over.
func (st *stream) idle(timer *time.Timer, hold time.Duration) (timedOut, over bool) {
	patience := hold
	if patience == 0 {
		patience = st.heartbeat / 2
		st.state.mu.Lock()
		if st.state.session.unacknowledged() > 0 {
			patience = ackDelay
		}
		st.state.mu.Unlock()
	}
	timer.Reset(patience)
	select {
	case <-st.state.wake:
		// Let other goroutines queue their items now, so that they are sent in one message.
		runtime.Gosched()
		return false, false
	case <-timer.C:
		return hold == 0, false
	case <-st.readDone:
		return false, true
	}
}
