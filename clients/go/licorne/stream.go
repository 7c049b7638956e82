package licorne

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"licorne.dev/clients/go/licornev1"
)

const (
	// welcomeTime is how long a server may take to answer a hello.
	welcomeTime = 30 * time.Second
	// grace is how long a server may take to end a stream after our goodbye.
	grace = 5 * time.Second
	// silence is how many heartbeats of the server may be missed before it counts as gone.
	silence = 3
	// usualHeartbeat and usualItems count where a welcome says nothing.
	usualHeartbeat = 30 * time.Second
	usualItems     = 1000
)

type call = grpc.BidiStreamingClient[licornev1.UpdateRequest, licornev1.UpdateResponse]

// lostError says why a stream broke, where that is not a status of gRPC.
type lostError string

func (e lostError) Error() string { return string(e) }

// stream is one RPC of the session: hello, welcome, replay or resumption, and then both directions
// at once. One goroutine reads and one writes, each for as long as the stream lasts.
type stream struct {
	state     *state
	callbacks *callbacks
	// addresses learn of other members. The state's lock guards them.
	addresses *addresses
	call      call
	// cancel breaks the call off, with the reason.
	cancel    context.CancelCauseFunc
	heartbeat time.Duration
	maxItems  int
	// repeats are the requests of former streams that a resumption sends again.
	repeats []*batch
	// replay is what is to be told first; nil if the session was resumed, and after its end.
	replay *replay
	// readingSince is when the wait for a response began, in nanoseconds since welcomedAt; -1 while
	// there is none.
	readingSince atomic.Int64
	// over says that the stream is ending, so that the reader waits for nothing. The state's lock
	// guards it.
	over bool
	// drained is how long to stay away, as a server that is about to stop says; -1 if it does not.
	drained atomic.Int64
	// goodbyeSaid and goodbyeHeard say who has said goodbye.
	goodbyeSaid, goodbyeHeard atomic.Bool
	// unregistering says whether our goodbye asks the server to forget the RM. The state's lock guards
	// it.
	unregistering bool
	// readDone is closed when the reader has ended, with readError as the reason.
	readDone  chan struct{}
	readError error

	// welcomedAt is when the server welcomed us; zero before.
	welcomedAt time.Time
	// redirect is the address that the server sent us to; empty if it welcomed us itself.
	redirect string
}

func newStream(
	s *state, callbacks *callbacks, known *addresses, c call, cancel context.CancelCauseFunc,
) *stream {
	st := &stream{
		state: s, callbacks: callbacks, addresses: known, call: c, cancel: cancel,
		heartbeat: usualHeartbeat, maxItems: usualItems, readDone: make(chan struct{}),
	}
	st.drained.Store(-1)
	return st
}

// run uses the stream to its end. It returns nil after a goodbye of either side or a redirect, and
// otherwise why the stream broke.
func (st *stream) run(ctx context.Context) error {
	err := st.talk(ctx)
	var own lostError
	if err != nil && errors.As(context.Cause(ctx), &own) && status.Code(err) == codes.Canceled {
		err = own
	}
	st.cancel(nil)
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.replay != nil {
		s.session.forget()
	}
	s.out.pause(s.session.resumable())
	return err
}

func (st *stream) talk(ctx context.Context) error {
	welcome, err := st.greet()
	if err != nil {
		return err
	}
	if st.redirect = welcome.GetWelcome().GetRedirect(); st.redirect != "" {
		return nil
	}
	if err := st.begin(welcome); err != nil {
		return err
	}
	watch := st.watchSilence(ctx)
	defer watch.Stop()
	go st.read()
	return st.end(st.write())
}

// end lets the server end the stream after the last write, or breaks it off. It returns why the stream
// ended.
func (st *stream) end(writeError error) error {
	st.state.mu.Lock()
	st.over = true
	st.state.inbox.changed.Broadcast()
	st.state.mu.Unlock()
	if writeError == nil || errors.Is(writeError, io.EOF) {
		// A write that finds the stream broken does not know why. The reader does.
		writeError = nil
		st.awaitEnd()
	}
	st.cancel(lostError("the server did not end the stream"))
	<-st.readDone
	switch {
	case writeError != nil:
		return writeError
	case st.readError != nil:
		return st.readError
	case st.goodbyeSaid.Load() || st.goodbyeHeard.Load():
		return nil
	default:
		return lostError("the stream ended without a goodbye")
	}
}

// awaitEnd gives the server time to end the stream.
func (st *stream) awaitEnd() {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-st.readDone:
	case <-timer.C:
	}
}

func (st *stream) greet() (*licornev1.UpdateResponse, error) {
	timer := time.AfterFunc(welcomeTime, func() {
		st.cancel(lostError(fmt.Sprintf("no welcome within %v", welcomeTime)))
	})
	defer timer.Stop()
	st.state.mu.Lock()
	hello := st.state.session.hello()
	st.state.mu.Unlock()
	// A write that fails says only that the stream has ended; the read says why.
	if err := st.call.Send(hello); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	response, err := st.call.Recv()
	if errors.Is(err, io.EOF) {
		return nil, lostError("the stream ended before its welcome")
	}
	if err != nil {
		return nil, err
	}
	if response.GetWelcome() == nil {
		return nil, &ProtocolError{"the server's first message is no welcome"}
	}
	return response, nil
}

func (st *stream) begin(response *licornev1.UpdateResponse) error {
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	welcome := response.GetWelcome()
	if seconds := welcome.GetHeartbeatSeconds(); seconds > 0 {
		st.heartbeat = time.Duration(seconds) * time.Second
	}
	if items := welcome.GetMaxItems(); items > 0 {
		st.maxItems = int(items)
	}
	repeats, err := s.session.welcome(response)
	if err != nil {
		return lostError(err.Error())
	}
	st.welcomedAt = time.Now()
	st.addresses.welcomed(welcome.GetOtherMembers())
	s.out.begin(st.maxItems)
	if welcome.GetResumed() {
		st.repeats = repeats
		s.stats.Resumed++
		st.callbacks.session(SessionChange{State: SessionResumed, Address: s.address})
		if !s.cache.replaying {
			s.live()
		}
		return nil
	}
	// The snapshot has everything that is queued. Later changes are sent after it.
	s.out.clear()
	st.callbacks.begin()
	st.replay = s.cache.snapshot()
	return nil
}

// watchSilence breaks the stream off when the server has fallen silent. It does not count as silence
// that the handlers are too slow for the reader.
func (st *stream) watchSilence(ctx context.Context) *time.Timer {
	var timer *time.Timer
	ready := make(chan struct{})
	timer = time.AfterFunc(st.heartbeat, func() {
		<-ready
		since := st.readingSince.Load()
		if since >= 0 && time.Since(st.welcomedAt)-time.Duration(since) > silence*st.heartbeat {
			st.cancel(lostError("the server has fallen silent"))
		} else if ctx.Err() == nil {
			timer.Reset(st.heartbeat)
		}
	})
	close(ready)
	return timer
}

// read applies responses until the stream ends.
func (st *stream) read() {
	defer close(st.readDone)
	for {
		st.readingSince.Store(int64(time.Since(st.welcomedAt)))
		response, err := st.call.Recv()
		st.readingSince.Store(-1)
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = st.take(response)
		}
		if err != nil {
			st.readError = err
			st.cancel(nil)
			return
		}
	}
}

// take applies a response, and waits for room for the next one.
func (st *stream) take(response *licornev1.UpdateResponse) error {
	s := st.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Received++
	accepted, err := s.session.accepts(response)
	if err != nil {
		return lostError(err.Error())
	}
	if !accepted {
		return nil
	}
	if drain := response.GetDrain(); drain != nil {
		st.drain(drain)
	}
	if notice := response.GetNotice(); notice != nil {
		st.state.log.Warn("the server notes", "code", notice.GetCode(), "message", notice.GetMessage())
	}
	if others := response.GetOtherMembers(); others != nil {
		st.addresses.tell(others.GetAddresses())
	}
	if response.GetGoodbye() != nil {
		st.goodbyeHeard.Store(true)
	}
	if err := st.callbacks.deliver(response); err != nil {
		return lostError(err.Error())
	}
	for !st.over && s.inbox.full() {
		s.inbox.changed.Wait()
	}
	return nil
}

func (st *stream) drain(drain *licornev1.Drain) {
	retryAfter := time.Duration(drain.GetRetryAfterMilliseconds()) * time.Millisecond
	st.drained.Store(int64(retryAfter))
	// What comes later waits for the next stream.
	st.state.out.seal()
	st.state.log.Info("the server is about to stop", "reason", drain.GetReason(), "retry_after", retryAfter)
	st.callbacks.session(SessionChange{
		State: SessionDraining, Address: st.state.address, RetryAfter: retryAfter,
	})
	st.state.wakeWriter()
}
